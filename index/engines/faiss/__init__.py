"""FAISS, in this process."""
