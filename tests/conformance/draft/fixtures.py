"""The hierarchies that zarr-python 2.18.7 wrote in the older dialect, and the same in that of December 2022, with the content of each node."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from frazil.stores import MemoryStore
from tests.external_data import data

OLD, NEW = "zarr-python-2.18.7", "dec2022-derived"
HIERARCHIES = {
    OLD: ("core", "root_array", "consolidated", "sharded", "sharded_root"),
    NEW: ("core", "root_array", "sharded", "sharded_root"),
}
CASES = [(kind, name) for kind, names in HIERARCHIES.items() for name in names]
COUNTS = {OLD: (139, 7), NEW: (130, 6)}  # arrays, groups


class ExpectedArray(NamedTuple):
    """path: "" at the root; chunks_per_shard: None if not sharded; key, document: as stored"""

    path: str
    key: str
    values: np.ndarray
    chunks: tuple[int, ...]
    chunks_per_shard: tuple[int, ...] | None
    document: Mapping[str, object]

    @property
    def attributes(self) -> dict[str, object]:
        """The user's attributes: filters are codecs (in the older dialect)."""
        attributes = dict(self.document["attributes"])
        attributes.pop("filters", None)
        return attributes


class Fixture(NamedTuple):
    """groups: attributes by path, None if the group has no document"""

    folder: Path
    arrays: tuple[ExpectedArray, ...]
    groups: Mapping[str, Mapping[str, object] | None]

    def in_memory(self) -> MemoryStore:
        store = MemoryStore()
        for path in self.files():
            store.set(path.relative_to(self.folder).as_posix(), path.read_bytes())
        return store

    def files(self) -> list[Path]:
        return sorted(path for path in self.folder.rglob("*") if path.is_file())

    def contents(self) -> dict[str, tuple[bytes, int]]:
        """Bytes and modification time of every file."""
        return {path.as_posix(): (path.read_bytes(), path.stat().st_mtime_ns) for path in self.files()}

    def members(self) -> dict[str, str]:
        """The kind of every node below the root."""
        kinds = {array.path: "array" for array in self.arrays}
        kinds |= dict.fromkeys(self.groups, "group")
        for path in [*kinds]:
            parts = path.split("/")
            kinds |= {"/".join(parts[:depth]): "group" for depth in range(1, len(parts))}
        kinds.pop("", None)
        return kinds


def unpack(folder: Path) -> Path:
    """Unpacks both archives into one folder."""
    for name in HIERARCHIES:
        with tarfile.open(data(f"draft-v3-{name}.tar.gz")) as archive:
            archive.extractall(folder, filter="data")
    return folder


def load(unpacked: Path, kind: str, name: str) -> Fixture:
    """One hierarchy with the content that its manifest expects."""
    base = unpacked / kind
    manifest = json.loads((base / "manifest.json").read_text())
    folder = base / f"{name}.zr3"
    arrays = tuple(_array(base, kind, entry) for entry in manifest["arrays"] if entry["hierarchy"] == folder.name)
    groups = {
        group["path"].strip("/"): group.get("attributes")
        for group in manifest["groups"]
        if group["hierarchy"] == folder.name
    }
    if name == "consolidated":  # the result of zarr-python's consolidate_metadata is an ordinary group
        groups["consolidated"] = {}
    return Fixture(folder, arrays, groups)


def _array(base: Path, kind: str, entry: Mapping[str, object]) -> ExpectedArray:
    path = str(entry["path"]).strip("/")
    root = "meta/root" if kind == OLD else "meta"
    key = f"{root}/{path}.array.json" if path else f"{root}.array.json" if kind == OLD else "meta/array.json"
    document = json.loads((base / str(entry["hierarchy"]) / key).read_text())
    transformers = document.get("storage_transformers", [])
    per_shard = transformers[0]["configuration"]["chunks_per_shard"] if transformers else None
    values = np.load(base / str(entry["expected"]))
    native = values.astype(values.dtype.newbyteorder("="))
    shape = document["chunk_grid"]["chunk_shape"]
    return ExpectedArray(path, key, native, tuple(shape), None if per_shard is None else tuple(per_shard), document)
