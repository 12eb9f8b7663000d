"""Hierarchies written by programs of the time, unpacked from the archives next to the project, with the expected values."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tests.external_data import data

import frazil
from frazil.metadata.types.core import RawType

OLD, DRAFT = "draft-v3-zarr-python-2.18.7", "draft-v3-dec2022-derived"
HIERARCHIES = [
    *((OLD, name) for name in ("core", "sharded", "root_array", "sharded_root", "consolidated")),
    *((DRAFT, name) for name in ("core", "sharded", "root_array", "sharded_root")),
]


class Archive(NamedTuple):
    folder: Path
    manifest: dict[str, Any]

    def hierarchy(self, name: str) -> Path:
        return self.folder / f"{name}.zr3"

    def arrays(self, name: str) -> Iterator[tuple[str, np.ndarray]]:
        """Paths, and the expected nodes."""
        for entry in self.manifest["arrays"]:
            if entry["hierarchy"] == f"{name}.zr3":
                expected = np.load((self.folder / entry["expected"]).resolve())
                yield entry["path"].strip("/"), expected

    def groups(self, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Paths of groups, and their attributes."""
        for entry in self.manifest["groups"]:
            if entry["hierarchy"] == f"{name}.zr3":
                yield entry["path"].strip("/"), entry.get("attributes", {})


def unpack(name: str, folder: Path) -> Archive:
    with tarfile.open(data(f"{name}.tar.gz")) as archive:
        archive.extractall(folder, filter="data")
    inner = folder / name.removeprefix("draft-v3-")
    return Archive(inner, json.loads((inner / "manifest.json").read_text()))


def nodes_of(location: object) -> dict[str, frazil.Array | frazil.Group]:
    """All nodes by path, the root too."""
    root = frazil.open(location)  # type: ignore[arg-type]
    if isinstance(root, frazil.Array):
        return {"": root}
    return {"": root, **dict(root.members(None))}


def assert_same(location: object, other: object) -> int:
    """Checks that two hierarchies have the same nodes, exact to the bit. Returns how many."""
    nodes, others = nodes_of(location), nodes_of(other)
    assert set(nodes) == set(others)
    for path, node in nodes.items():
        twin = others[path]
        assert dict(node.attrs) == dict(twin.attrs), path
        assert isinstance(node, frazil.Array) == isinstance(twin, frazil.Array), path
        if isinstance(node, frazil.Array) and isinstance(twin, frazil.Array):
            assert (node.shape, node.dtype, node.chunks, node.shards) == (
                twin.shape,
                twin.dtype,
                twin.chunks,
                twin.shards,
            )
            types = node.metadata.data_type, twin.metadata.data_type
            # raw bytes have another name in final Zarr v3, and are then equal in memory, see above
            assert types[0] == types[1] or all(isinstance(one, RawType) for one in types), path
            assert node.metadata.fill_value == twin.metadata.fill_value, path
            assert node[...].tobytes() == twin[...].tobytes(), path
    return len(nodes)
