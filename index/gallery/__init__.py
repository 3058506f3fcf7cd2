"""The gallery of people, photos and embeddings: the source of truth."""

from __future__ import annotations

from index.gallery.gallery import Gallery

__all__ = ["Gallery"]
