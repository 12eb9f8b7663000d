"""Converts the map of nodes of a snapshot from and to bytes. Writing copies the bytes of nodes that did not change since they were read.

The nodes as values are in formats/nodes.py, the index of their bytes in node_index.py, the rest of a snapshot in snapshots.py."""

from __future__ import annotations

from typing import Final

from frazil.formats.alpha.node_index import END, ROW, NodeIndex, find_nodes
from frazil.formats.alpha.node_values import write_entry
from frazil.formats.msgpack import Reader, write_map
from frazil.formats.nodes import Nodes, nodes_over, sort_key

_NOTHING: Final = NodeIndex()  # for nodes that are in no file


def read_nodes(reader: Reader, label: str) -> Nodes:
    """The map of nodes of a snapshot. Of duplicate paths the last is used. Raises FormatError if the bytes end too early, a key is not text, or two nodes have
    one id."""
    count = reader.map(label)
    paths, rows, reader.at, distinct = find_nodes(reader.data, reader.at, count, reader.key)
    index = NodeIndex(reader.data, reader.key, paths, rows)
    if not distinct:
        index.check_ids()
    return nodes_over(index, {})


def encode_nodes(nodes: Nodes) -> bytes:
    """The bytes of the map, cached if something was changed. Nodes that did not change are copied, neighbours at once. Raises InvalidInputError for a node that
    the format cannot hold."""
    if nodes.encoded is not None:
        return nodes.encoded
    out = bytearray()
    write_map(out, len(nodes))
    index = _index_of(nodes)
    if index.order().follows:
        _splice(out, nodes, index)
    else:
        _gather(out, nodes, index)
    data = bytes(out)
    if nodes.changes:
        nodes.encoded = data
    return data


def index_nodes(nodes: Nodes, data: bytes, at: int, key: str | None) -> Nodes:
    """The same nodes, all stored in `data`, including the changed ones: their encoded bytes begin at `at`."""
    header = bytearray()
    write_map(header, len(nodes))
    index = _index_of(nodes).following(data, at + len(header), key, nodes.ordered(), nodes.changes)
    return nodes_over(index, {})


def _index_of(nodes: Nodes) -> NodeIndex:
    return nodes.stored if isinstance(nodes.stored, NodeIndex) else _NOTHING


def _splice(out: bytearray, nodes: Nodes, index: NodeIndex) -> None:
    """Writes nodes that are sorted in their file: the bytes between changed nodes are copied without reading them."""
    order, done = index.order(), 0
    for key, path in sorted([(sort_key(path), path) for path in nodes.changes]):
        node, entry = nodes.changes[path], index.entries.get(path)
        position = order.position(key, path) if entry is None else entry // ROW
        out += _rows_between(index, done, position)
        done = position if entry is None else position + 1
        if node is not None:
            write_entry(out, node, index.metadata_bytes(path, node))
    out += _rows_between(index, done, len(index.paths))


def _rows_between(index: NodeIndex, first: int, last: int) -> memoryview:
    rows = index.rows
    if first == last:
        return memoryview(b"")
    return memoryview(index.data)[rows[first * ROW] : rows[(last - 1) * ROW + END]]


def _gather(out: bytearray, nodes: Nodes, index: NodeIndex) -> None:
    """Writes nodes that are not sorted in their file: node by node."""
    view, rows, start, end = memoryview(index.data), index.rows, 0, 0
    for path in nodes:
        node = nodes.changes.get(path)
        if node is not None:
            out += view[start:end]
            start = end = 0
            write_entry(out, node)
            continue
        entry = index.entries[path]
        if rows[entry] == end:
            end = rows[entry + END]
        else:
            out += view[start:end]
            start, end = rows[entry], rows[entry + END]
    out += view[start:end]
