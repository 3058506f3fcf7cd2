"""Check an ONNX graph: only standard operators, and no weights from undeclared files.

The file is parsed as protobuf wire format, so that serving needs no ``onnx``. Every occurrence of
a field is checked, because runtimes may differ in which one they use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from model.errors import BundleError

CONTROL_FLOW = frozenset({"If", "Loop", "Scan", "SequenceMap"})
"""Operators that may never terminate; no face embedder needs them."""

DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml"})

# Field numbers in onnx.proto.
MODEL_GRAPH, MODEL_TRAINING, MODEL_FUNCTIONS = 7, 20, 25
GRAPH_NODE, GRAPH_TENSOR, GRAPH_SPARSE = 1, 5, 15
NODE_OPERATOR, NODE_ATTRIBUTE, NODE_DOMAIN = 4, 5, 7
ATTRIBUTE_GRAPHS, ATTRIBUTE_TENSORS, ATTRIBUTE_SPARSE = (6, 11), (5, 10), (22, 23)
SPARSE_TENSORS = (1, 2)
TENSOR_EXTERNAL, TENSOR_LOCATION = 13, 14
ENTRY_KEY, ENTRY_VALUE = 1, 2

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def check_graph(graph: bytes, *, beside: Collection[str] = ()) -> None:
    """Reject a graph that could run other code or read other files.

    Args:
        beside: Files in its folder from which weights may be read. Other files are not part of
            the model and not trusted.

    Raises:
        BundleError: The file is not an ONNX graph, has control flow, functions or non-standard
            operators, or reads other files.
    """
    try:
        model = memoryview(graph)
        if _all(model, MODEL_TRAINING, MODEL_FUNCTIONS):
            raise BundleError(
                "The ONNX graph defines functions of its own, which is not supported."
            )
        for part in _all(model, MODEL_GRAPH):
            for node in _all(part, GRAPH_NODE):
                _check_node(node)
            for tensor in _tensors(part):
                _check_tensor(tensor, beside)
    except (IndexError, ValueError) as error:
        raise BundleError(f"This file is not a usable ONNX graph: {error}") from error


def _check_node(node: memoryview) -> None:
    operators, domains = _texts(node, NODE_OPERATOR), _texts(node, NODE_DOMAIN)
    if not domains <= DOMAINS:
        names = ", ".join(sorted(operators))
        raise BundleError(f"The ONNX graph uses {names}, which is not a standard ONNX operator.")
    inner = (_all(attribute, *ATTRIBUTE_GRAPHS) for attribute in _all(node, NODE_ATTRIBUTE))
    if operators & CONTROL_FLOW or any(inner):
        names = ", ".join(sorted(operators))
        raise BundleError(f"The ONNX graph uses {names}, which may run forever.")


def _check_tensor(tensor: memoryview, beside: Collection[str]) -> None:
    entries = _all(tensor, TENSOR_EXTERNAL)
    if not entries and not any(_all(tensor, TENSOR_LOCATION)):
        return
    places = [
        _texts(entry, ENTRY_VALUE)
        for entry in entries
        if "location" in _texts(entry, ENTRY_KEY)
    ]  # fmt: skip
    if not places or not set().union(*places) <= set(beside):
        raise BundleError("The ONNX graph reads weights from another file. Save it as one file.")


def _tensors(graph: memoryview) -> Iterator[memoryview]:
    yield from _all(graph, GRAPH_TENSOR)
    for sparse in _all(graph, GRAPH_SPARSE):
        yield from _all(sparse, *SPARSE_TENSORS)
    for node in _all(graph, GRAPH_NODE):
        for attribute in _all(node, NODE_ATTRIBUTE):
            yield from _all(attribute, *ATTRIBUTE_TENSORS)
            for sparse in _all(attribute, *ATTRIBUTE_SPARSE):
                yield from _all(sparse, *SPARSE_TENSORS)


def _texts(message: memoryview, number: int) -> set[str]:
    values = (value for value in _all(message, number) if not isinstance(value, int))
    return {bytes(value).decode(errors="replace") for value in values}


def _all(message: memoryview | int, *numbers: int) -> list[Any]:
    """Return all values of the given fields, memoryviews and ints; none if message is an int."""
    found: list[Any] = []
    place = 0
    value: memoryview | int
    while not isinstance(message, int) and place < len(message):
        tag, place = _varint(message, place, most=5)
        kind = tag & 7
        if kind == VARINT:
            value, place = _varint(message, place, most=10)
        elif kind in (FIXED32, FIXED64):
            value, place = 0, place + (4 if kind == FIXED32 else 8)
        elif kind == BYTES:
            length, start = _varint(message, place, most=5)
            value, place = message[start : start + length], start + length
        else:
            raise ValueError(f"a field has the unknown kind {kind}")
        if place > len(message):
            raise ValueError("it ends within a field")
        if tag >> 3 in numbers:
            found.append(value)
    return found


def _varint(message: memoryview, place: int, *, most: int) -> tuple[int, int]:
    value = 0
    for step in range(most):
        byte = message[place + step]
        value |= (byte & 0x7F) << (7 * step)
        if byte < 0x80:
            return value, place + step + 1
    raise ValueError("a number is too long")
