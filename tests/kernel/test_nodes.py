"""The kernel's index of nodes, compared with a plain walk through the same bytes in Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from frazil import _kernel
from frazil.errors import FormatError
from frazil.formats.alpha.node_values import path_mistake
from frazil.formats.ids import decode_id
from frazil.formats.msgpack import Reader, pack
from tests.formats import documents
from tests.formats.encoding import Pairs, Wide, encoded

EXTENTS = [[documents.ID, [[0, 300], [7, 2**32 - 1]]], [documents.OTHER, []]]
NODES = [
    documents.group("/"),
    documents.array("/a", 7),
    documents.array("/b", 2**32 - 1, data_type="unknown"),
    [Wide(3), Wide("/c"), {"Inline": {"x": [1, {"y": None}]}}, Wide("Group")],
    documents.named("node", documents.group("/named")),
    [5, "/5", None, {"Array": [documents.metadata(), EXTENTS]}],
    [2**32, "/d", None, "Group"],
    [-1, "/d", None, "Group"],
    ["text", "/e", None, {"Array": 5}],
    [5, "/f", None, {"Array": 5, "Group": 6}],
    [5, "/f", None, {"Table": 5}],
    [5, "/f", None],
    None,
    [],
    "Group",
]


def _path_of(node: object, at: int) -> str:
    path = node[1] if isinstance(node, list) and len(node) > 1 else None
    return path if isinstance(path, str) else f"/{at}"


FILE = encoded(Pairs([(_path_of(node, at), node) for at, node in enumerate(NODES)]))


def by_kernel(data: bytes, at: int, count: int) -> tuple[list[str], list[list[int]], int] | None:
    paths, rows, end, distinct, failures = _kernel.find_nodes(data, at, count)
    if failures:
        assert (paths, rows, end, distinct, len(failures)) == ([], None, at, False, 1)
        position, _, text = failures[0]
        assert at <= position <= len(data)
        assert text
        return None
    assert rows is not None
    found = np.frombuffer(rows, np.int64).reshape(-1, 8)
    assert distinct == (len(set(found[:, 3])) == count and -1 not in found[:, 3])
    return paths, found.tolist(), end


def by_hand(data: bytes, at: int, count: int) -> tuple[list[str], list[list[int]], int] | None:
    reader, paths, rows = Reader(data, None, at), [], []
    try:
        for _ in range(count):
            start = reader.at
            paths.append(reader.text("a path"))
            middle = reader.at
            reader.skip("a node")
            glance = _glance(Reader(data, None, middle))
            parts = _parts(Reader(data, None, middle), paths[-1]) if glance[1] >= 0 else None
            rows.append([start, middle, reader.at, *glance, *(parts or (-1, -1, -1))])
    except FormatError:
        return None
    return paths, rows, reader.at


def _glance(reader: Reader) -> tuple[int, int]:
    try:
        if reader.array("a node") != 4:
            return -1, -1
        number = reader.integer("an id", 0, 2**32 - 1)
    except FormatError:
        return -1, -1
    reader.skip("a path and attributes", 2)
    try:
        return number, {("Group", False): 0, ("Array", True): 1}.get(reader.variant("a kind"), -1)
    except FormatError:
        return number, -1


def _parts(reader: Reader, path: str) -> tuple[int, int, int] | None:
    """The starts of attributes, metadata and manifests of a node that is an array of four, of a known kind. None if more than those could be wrong."""
    try:
        reader.array("a node")
        reader.skip("an id")
        if path_mistake(path) is not None or reader.text("a path") != path:
            return None
        attributes = reader.at
        reader.skip("attributes")
        if not reader.variant("a kind")[1]:
            return attributes, -1, -1
        if reader.array("an array") != 2:
            return None
        metadata = reader.at
        reader.skip("metadata")
        manifests = reader.at
        for _ in range(reader.array("manifests")):
            if reader.array("a manifest") != 2:
                return None
            decode_id(reader.text("an id"))
            for _ in range(reader.array("extents")):
                for _ in range(reader.array("coordinates")):
                    reader.integer("a coordinate", 0, 2**32 - 1)
    except FormatError:
        return None
    return attributes, metadata, manifests


def test_nodes_of_every_kind() -> None:
    found = by_kernel(FILE, 1, len(NODES))
    assert found == by_hand(FILE, 1, len(NODES))
    assert found is not None
    assert [row[3:5] for row in found[1]] == [
        *([1, 0], [7, 1], [2**32 - 1, 1], [3, 0], [-1, -1], [5, 1], [-1, -1], [-1, -1], [-1, -1]),
        *([5, -1], [5, -1], [-1, -1], [-1, -1], [-1, -1], [-1, -1]),
    ]


@given(st.integers(0, len(FILE) - 1), st.integers(0, 255), st.integers(0, len(FILE)), st.integers(0, 20))
@example(at=0, byte=FILE[0], cut=len(FILE), count=0)
def test_changed_and_cut_bytes_are_taken_as_by_hand(at: int, byte: int, cut: int, count: int) -> None:
    data = (FILE[:at] + bytes([byte]) + FILE[at + 1 :])[: max(cut, 1)]
    assert by_kernel(data, 1, count) == by_hand(data, 1, count)
    assert by_kernel(data, 1, len(NODES)) == by_hand(data, 1, len(NODES))


@given(st.binary(max_size=60), st.integers(0, 5))
def test_any_bytes_are_taken_as_by_hand(data: bytes, count: int) -> None:
    assert by_kernel(data, 0, count) == by_hand(data, 0, count)


@pytest.mark.parametrize("count", [1, 2**32, 2**63, 2**64 - 1])
def test_counts_that_lie_are_refused_at_once(count: int) -> None:
    assert by_kernel(b"", 0, count) is None
    assert by_kernel(pack("/")[:1], 0, count) is None


def test_wrong_arguments_are_the_caller_s_mistake() -> None:
    with pytest.raises(ValueError, match="beyond the data"):
        _kernel.find_nodes(b"", 1, 0)
    with pytest.raises(OverflowError):
        _kernel.find_nodes(b"", -1, 0)
