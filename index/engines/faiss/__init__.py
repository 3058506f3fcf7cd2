"""A FAISS index in this process."""
