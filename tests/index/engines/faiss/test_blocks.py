"""What a block keeps of removed rows: nothing."""

from __future__ import annotations

import numpy as np

from index.engines.faiss.blocks import FastBlock, FlatBlock, append, fp16_store, store_view
from index.engines.faiss.install import load_faiss
from tests.index.helpers import unit

ROWS, DIMENSION = 100, 64


def code_of(block: FastBlock, row: int) -> bytes:
    """The compact code of a row, as the index keeps it."""
    faiss = load_faiss()
    codes = faiss.downcast_index(block.coder.index)
    packer = codes.get_CodePacker()
    found = faiss.rev_swig_ptr(codes.codes.data(), codes.codes.size())
    number, place = divmod(row, packer.nvec)
    blocks = found.reshape(-1, packer.block_size)
    return packer.unpack_1(blocks[number : number + 1], place).tobytes()


def test_vectors_and_codes_of_removed_rows_are_overwritten_and_no_others() -> None:
    vectors = unit(np.random.default_rng(0).standard_normal((ROWS, DIMENSION)))
    store = fp16_store(DIMENSION)
    append(store, vectors)
    block = FastBlock(np.arange(ROWS) + 1000, store)
    before = [code_of(block, row) for row in range(ROWS)]
    removed = [5, 37, 99]
    assert block.remove(np.array(removed) + 1000) == 3
    for row in range(ROWS):
        gone = row in removed
        assert any(before[row])
        assert store_view(store)[row].any() != gone
        assert code_of(block, row) == (bytes(len(before[row])) if gone else before[row])
    scores, ids = block.search(vectors[[4, 37]], 3)
    assert ids[0, 0] == 1004
    assert not set(removed) & set(ids.ravel() - 1000)
    assert scores[0, 0] > 0.99


def test_the_freed_end_of_a_flat_block_is_overwritten() -> None:
    vectors = unit(np.random.default_rng(0).standard_normal((ROWS, DIMENSION)))
    block = FlatBlock(DIMENSION)
    block.add(np.arange(ROWS), vectors)
    memory = block.vectors  # stays allocated when there are fewer rows
    assert block.remove(np.array([5, 37, 99])) == 3
    assert memory[:97].any(axis=1).all()
    assert not memory[97:].any()
