"""A repository written by the library, in which one thing is changed, and the values that must be read then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import frazil
from frazil.stores import MemoryStore
from tests.conformance.alpha.library import Library, encoded, new_id, unpack

PLANE = np.arange(16, dtype="f4").reshape(4, 4)
LINE = np.arange(600, dtype="f4")
MAIN = "refs/branch.main/"
SNAPSHOT, MANIFEST = "snapshots/", "manifests/"


class Made:
    """A repository of the library: /plane, inline, and /sub/line, native."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        library = Library.create(self.store)
        at = library.checkout("main")
        at.create_group("/", {})
        at.create_array("/plane", (4, 4), (2, 2))
        at.create_group("/sub", {"is": "sub"})
        at.create_array("/sub/line", (600,), (200,))
        at.set_attributes("/plane", {"is": "plane"})
        at.commit("main", "structure")
        at.write("/plane", PLANE)
        at.write("/sub/line", LINE)
        self.tip = at.commit("main", "data")
        self.snapshot = f"{SNAPSHOT}{self.tip}"
        self.manifest = f"{MANIFEST}{at.nodes['/plane'].manifests[0]}"

    def value(self, key: str) -> Any:
        return unpack(self.store.get(key) or b"")

    def put(self, key: str, value: object) -> None:
        self.store.set(key, encoded(value))

    def field(self, number: int, value: object) -> None:
        """Another value for a field of the snapshot."""
        fields = self.value(self.snapshot)
        fields[number] = value
        self.put(self.snapshot, fields)

    def node(self, path: str, change: Callable[[list[Any]], object]) -> None:
        fields = self.value(self.snapshot)
        fields[10][path] = change(fields[10][path]) or fields[10][path]
        self.put(self.snapshot, fields)

    def array(self, path: str, member: int, value: object) -> None:
        self.node(path, lambda node: node[3]["Array"][0].__setitem__(member, value))

    def listed(self, path: str, manifests: list[object]) -> None:
        self.node(path, lambda node: node[3]["Array"].__setitem__(1, manifests))

    def second_manifest(self, chunks: dict[Any, Any]) -> str:
        identity = new_id()
        self.put(f"{MANIFEST}{identity}", [0, {}, chunks])
        return identity


def read(store: MemoryStore, plane: np.ndarray[Any, Any], line: np.ndarray[Any, Any]) -> None:
    root = frazil.Repository.open(store).readonly_session().root
    np.testing.assert_array_equal(root["plane"][...], plane)
    np.testing.assert_array_equal(root["sub/line"][...], line)


def check(made: Made, plane: np.ndarray[Any, Any] = PLANE, line: np.ndarray[Any, Any] = LINE) -> None:
    """It is read, and continued: afterwards all data is still there."""
    read(made.store, plane, line)
    repo = frazil.Repository.open(made.store)
    plane = plane.copy()
    plane[3, 3] = 99
    with repo.transaction(message="ours") as root:
        root["plane"][3, 3] = 99
        root["sub"].attrs["more"] = 1
    read(made.store, plane, line)
    assert dict(repo.readonly_session().root["sub"].attrs) == {"is": "sub", "more": 1}
    assert next(iter(repo.history())).message == "ours"
    seen = Library(made.store).checkout("main")
    np.testing.assert_array_equal(seen.array("/plane"), plane)
    if "/sub" in seen.nodes:
        np.testing.assert_array_equal(seen.array("/sub/line"), line)
