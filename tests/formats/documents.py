"""Snapshot files made by hand: plain values for tests/formats/encoding.py, positional as the library wrote them, with parts replaced."""

from __future__ import annotations

from frazil.formats.alpha.snapshots import SnapshotFile, encode_and_index
from tests.formats.encoding import Pairs, Single, encoded

ID = "PGFG33J5SJNP38N7NFV0"
OTHER = "Q7HMN2SYVTRD4YP93780"
TIME = "2024-10-13T18:53:45.425022Z"

FIELDS = {
    "icechunk_snapshot_format_version": 0,
    "icechunk_snapshot_format_flags": {},
    "manifest_files": [[ID, 0]],
    "attribute_files": [],
    "total_parents": 1,
    "short_term_parents": 1,
    "short_term_history": [[OTHER, TIME, "before"]],
    "metadata": [ID, TIME, "a message"],
    "started_at": TIME,
    "properties": {},
    "nodes": {},
}
METADATA = {
    "shape": [10, 10],
    "data_type": "float32",
    "chunk_shape": [5, 5],
    "chunk_key_encoding": "Slash",
    "fill_value": {"Float32": Single(float("nan"))},
    "codecs": [["bytes", {"endian": "little"}]],
    "storage_transformers": [],
    "dimension_names": None,
}


def metadata(**changes: object) -> list[object]:
    return list({**METADATA, **changes}.values())


def group(path: str, number: int = 1, attributes: object = None) -> list[object]:
    return [number, path, attributes, "Group"]


def array(path: str, number: int = 2, **changes: object) -> list[object]:
    return [number, path, {"Inline": {}}, {"Array": [metadata(**changes), [[ID, []]]]}]


def snapshot(*nodes: list[object], **changes: object) -> bytes:
    """A file with these nodes, each under its own path, and with fields replaced."""
    fields = {**FIELDS, "nodes": Pairs([(node[1], node) for node in nodes]), **changes}
    return encoded(list(fields.values()))


NAMED = {
    "snapshot": tuple(FIELDS),
    "metadata": tuple(METADATA),
    "node": ("id", "path", "user_attributes", "node_data"),
    "info": ("id", "written_at", "message"),
    "file": ("id", "format_version"),
    "manifest": ("object_id", "extents"),
    "codec": ("name", "configuration"),
}


def named(kind: str, values: list[object]) -> dict[str, object]:
    """A struct as a map, with reversed fields and an unknown one."""
    pairs = [*zip(NAMED[kind], values, strict=True)]
    return {**dict(reversed(pairs)), "a later field": [1, {"x": None}]}


def encoded_snapshot(snapshot: SnapshotFile) -> bytes:
    """The bytes of a snapshot file."""
    return encode_and_index(snapshot)[0]
