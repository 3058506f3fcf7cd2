"""The source of truth: people, photos and embeddings."""

from __future__ import annotations

from index.gallery.gallery import Gallery

__all__ = ["Gallery"]
