"""Repositories that Frazil and the alpha library (library.py is its model) change in turns: each reads exactly what the other committed, and continues.

The library itself, built from its source, was run the same way; where it differed from the model, the model was corrected."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import frazil
from frazil.errors import ConflictError, FormatError
from frazil.repository.alpha.alpha_library import GUARD
from frazil.stores import MemoryStore
from tests.conformance.alpha.library import FIRST, Library, Refused, unpack

Plain = dict[str, tuple[np.ndarray[Any, Any] | None, dict[str, Any]]]  # by path: values (None: a group) and attributes
NAMES = ("a", "b", "c", "dd", "e f", "é")


def compatible(store: MemoryStore) -> frazil.Repository:
    return frazil.Repository.create(store, compatible="alpha-library")


def check(repo: frazil.Repository, library: Library, name: str, plain: Plain) -> None:
    """Both read and list the same."""
    session = repo.readonly_session(snapshot=repo.lookup(name))
    seen = library.checkout(name)
    assert seen.paths() == sorted(plain)
    documents = [key.removesuffix("zarr.json").rstrip("/") for key in session.store.list() if key.endswith("zarr.json")]
    assert sorted(f"/{path}" for path in documents) == sorted(plain)
    for path, (values, attributes) in plain.items():
        node = session.open(path[1:])
        assert dict(node.attrs) == attributes == (seen.nodes[path].attributes or {})
        if values is None:
            assert isinstance(node, frazil.Group)
        else:
            assert isinstance(node, frazil.Array)
            np.testing.assert_array_equal(node[...], values, path)
            np.testing.assert_array_equal(seen.array(path), values, path)


class Both:
    """Random changes, made to plain values and by one of the two programs."""

    def __init__(self, repo: frazil.Repository, seed: int) -> None:
        self.repo, self.random = repo, random.Random(seed)
        self.plain: Plain = {"/": (None, {})}
        self.count = 0

    def values(self, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        self.count += 1
        return (np.arange(np.prod(shape, dtype=int)) + 1000 * self.count).astype("f4").reshape(shape)

    def arrays(self) -> list[str]:
        return [path for path, (values, _) in self.plain.items() if values is not None]

    def free(self) -> str | None:
        names = [f"/{name}" for name in NAMES if f"/{name}" not in self.plain]
        return self.random.choice(names) if names else None

    def by_frazil(self, root: frazil.Group) -> None:
        """A few changes, and always one more of the root: without any change there would be no commit."""
        for _ in range(self.random.randint(1, 4)):
            self._one_by_frazil(root)
        self.count += 1
        root.attrs["last"] = self.count
        self.plain["/"] = None, {**self.plain["/"][1], "last": self.count}

    def _one_by_frazil(self, root: frazil.Group) -> None:
        arrays, plain, free = self.arrays(), self.plain, self.free()
        match self.random.choice(
            ("create", "create", "write", "write", "write", "resize", "move", "delete", "attributes")
        ):
            case "create" if free is not None:
                shape, zipped = (self.random.randint(1, 40), self.random.randint(1, 30)), self.random.random() < 0.3
                codecs = ["bytes", {"name": "gzip", "configuration": {"level": 1}}] if zipped else ["bytes"]
                chunks = self.random.choice(((5, 4), (16, 16)))
                root.create_array(free[1:], shape=shape, dtype="f4", chunks=chunks, codecs=codecs, fill_value=np.nan)
                plain[free] = np.full(shape, np.nan, "f4"), {}
            case "write" if arrays:
                path = self.random.choice(arrays)
                values, attributes = plain[path]
                assert values is not None
                first = self.random.randint(0, values.shape[0] - 1)
                part = slice(first, self.random.randint(first + 1, values.shape[0]))
                new = self.values(values[part].shape) if self.random.random() < 0.8 else np.float32(np.nan)
                plain[path] = values.copy(), attributes
                plain[path][0][part] = new  # type: ignore[index]
                root[path[1:]][part] = new
            case "resize" if arrays:
                path = self.random.choice(arrays)
                values, attributes = plain[path]
                assert values is not None
                shape = (self.random.randint(1, 40), values.shape[1])
                plain[path] = resized(values, shape), attributes
                array = root[path[1:]]
                assert isinstance(array, frazil.Array)
                array.resize(shape)
            case "move" if arrays and free is not None:
                path = self.random.choice(arrays)
                plain[free] = plain.pop(path)
                root.move(path[1:], free[1:])
            case "delete" if len(arrays) > 3:
                path = self.random.choice(arrays)
                del plain[path]
                del root[path[1:]]
            case "attributes":
                path = self.random.choice(list(plain))
                attributes = {"count": self.count, "nested": {"b": [1.5, None], "a": "x" * self.random.randint(0, 40)}}
                plain[path] = plain[path][0], attributes
                (root if path == "/" else root[path[1:]]).attrs.put(attributes)
            case _:
                name = f"/g{self.count}"
                self.count += 1
                root.create_group(name[1:], attributes={"n": 1})
                plain[name] = None, {"n": 1}

    def by_library(self, library: Library, branch: str, message: str) -> None:
        at, plain = library.checkout(branch), self.plain
        if "/" not in at.nodes:
            at.create_group("/", {})
        for _ in range(self.random.randint(1, 3)):
            arrays, free = self.arrays(), self.free()
            match self.random.choice(("create", "write", "write", "resize", "delete", "attributes")):
                case "create" if free is not None:
                    shape = (self.random.randint(1, 40), self.random.randint(1, 30))
                    at.create_array(free, shape, (16, 16), zipped=self.random.random() < 0.3)
                    plain[free] = np.full(shape, np.nan, "f4"), {}
                case "write" if arrays:
                    path = self.random.choice(arrays)
                    values, attributes = plain[path]
                    assert values is not None
                    plain[path] = self.values(values.shape), attributes
                    at.write(path, plain[path][0])  # type: ignore[arg-type]
                case "resize" if arrays:  # to whole chunks: the library does not clear cut elements
                    path = self.random.choice(arrays)
                    values, attributes = plain[path]
                    assert values is not None
                    shape = (at.chunk_shape(path)[0] * self.random.randint(1, 4), values.shape[1])
                    plain[path] = resized(values, shape), attributes
                    at.resize(path, shape)
                case "delete" if len(arrays) > 4:
                    path = self.random.choice(arrays)
                    del plain[path]
                    at.delete(path)
                case _:
                    at.set_attributes("/", {"by": message})
                    plain["/"] = None, {"by": message}
        at.commit(branch, message)


def resized(values: np.ndarray[Any, Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    out = np.full(shape, np.nan, values.dtype)
    common = tuple(slice(0, min(old, new)) for old, new in zip(values.shape, shape, strict=True))
    out[common] = values[common]
    return out


@pytest.mark.rule("I223", "I232", "I267", "I292")
@pytest.mark.parametrize("seed", range(3))
def test_thirty_commits_of_ours(seed: int) -> None:
    store = MemoryStore()
    repo = compatible(store)
    both = Both(repo, seed)
    with repo.transaction(message="root") as root:
        root.attrs["of"] = "frazil"
        both.plain["/"] = None, {"of": "frazil"}
    messages = ["root", FIRST]
    past: dict[str, tuple[Plain, int]] = {}
    for number in range(30):
        with repo.transaction(message=str(number)) as root:
            both.by_frazil(root)
        messages.insert(0, str(number))
        if number % 10 == 4:
            repo.create_tag(f"t{number}", "main")
            repo.create_branch(f"b {number}", "main")
            past[f"t{number}"] = past[f"b {number}"] = dict(both.plain), len(messages)
        if number % 5 == 4:
            check(repo, Library(store), "main", both.plain)
    for name, (plain, count) in past.items():
        check(repo, Library(store), name, plain)
        assert Library(store).checkout(name).ancestry() == messages[-count:]
    seen = Library(store).checkout("main")
    assert seen.ancestry() == messages == [commit.message for commit in repo.history()]
    sizes = {f"chunks/{key[7:]}": size for key, size in zip(chunks(store), store.sizes(chunks(store)), strict=True)}
    for key in store.list_prefix("manifests/"):
        version, flags, references = unpack(store.get(key) or b"")
        assert (version, flags) == (0, {})
        native = [payload["Ref"] for payload in references.values() if "Ref" in payload]
        assert all(offset == 0 and sizes.get(f"chunks/{file}", length) == length for file, offset, length in native)
        assert len({file for file, _, _ in native}) == len(native)


def chunks(store: MemoryStore) -> list[str]:
    return store.list_prefix("chunks/")


@pytest.mark.rule("I174", "I177", "I333")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("creator", ["frazil", "library"])
def test_commits_of_the_library_and_frazil_alternate(creator: str, seed: int) -> None:
    """With the defect of the library: it is harmless as long as each of its commits is followed by one of ours."""
    store = MemoryStore()
    repo = compatible(store) if creator == "frazil" else None
    library = Library(store) if repo else Library.create(store)
    library.repaired = False
    repo = repo or frazil.Repository.open(store)
    both = Both(repo, seed)
    messages = [FIRST]
    for number in range(12):
        if both.random.random() < 0.5 and not messages[0].startswith("library"):
            both.by_library(library, "main", f"library {number}")
            messages.insert(0, f"library {number}")
        else:
            with repo.transaction(message=f"frazil {number}") as root:
                both.by_frazil(root)
            messages.insert(0, f"frazil {number}")
        check(repo, library, "main", both.plain)
        assert library.checkout("main").ancestry() == messages
    assert [commit.message for commit in repo.history()] == messages


def test_the_second_writer_conflicts() -> None:
    store = MemoryStore()
    repo, library = compatible(store), Library(store)
    with repo.transaction(message="root") as root:
        root.create_array("a", shape=(4,), dtype="f4", chunks=(2,), codecs=["bytes"], fill_value=np.nan)
    session, other = repo.writable_session(), library.checkout("main")
    session.root["a"][0] = 1
    other.set_chunk("/a", (1,), np.array([7, 8], "<f4").tobytes())
    other.commit("main", "theirs")
    with pytest.raises(ConflictError):
        session.commit("ours")
    session.commit("ours", rebase="disjoint")
    np.testing.assert_array_equal(library.checkout("main").array("/a"), np.array([1, np.nan, 7, 8], "f4"))
    late = library.checkout("main")
    with repo.transaction(message="again") as root:
        root["a"][1] = 2
    late.set_chunk("/a", (1,), None)
    with pytest.raises(Refused, match="quicker"):
        late.commit("main", "late")


@pytest.mark.parametrize("compatible", [None, "alpha-library"])
def test_flags_that_the_alpha_library_drops(compatible: str | None) -> None:
    """Its commit drops flags, properties, extents; free metadata is then kept in a form that it can read."""
    store = MemoryStore()
    repo = frazil.Repository.create(store, compatible=compatible)
    with repo.transaction(message="one", metadata={"ship": "Polarstern"}) as root:
        root.create_array("a", shape=(4, 4), dtype="f4", chunks=(2, 2), codecs=["bytes"], fill_value=np.nan)[...] = 1
    library = Library(store)
    if compatible is None:
        with pytest.raises(Refused, match="in a branch"):
            library.checkout("main")
        store.erase(f"refs/branch.main/{GUARD}")  # repositories of earlier versions have no such file
    at = library.checkout("main")
    assert at.properties == {"ship": "Polarstern"}
    at.set_chunk("/a", (0, 0), None)
    at.commit("main", "two")
    with repo.transaction(message="three") as root:
        root["a"][3, 3] = 9
        root.create_array("b", shape=(3,), dtype="f4", chunks=(200,), codecs=["bytes"], fill_value=np.nan)[...] = 5
    expected = np.ones((4, 4), "f4")
    expected[:2, :2], expected[3, 3] = np.nan, 9
    np.testing.assert_array_equal(repo.readonly_session().root["a"][...], expected)
    seen = library.checkout("main")
    np.testing.assert_array_equal(seen.array("/a"), expected)
    np.testing.assert_array_equal(seen.array("/b"), np.full(3, 5, "f4"))
    assert [commit.metadata for commit in repo.history()][1:3] == [{}, {"ship": "Polarstern"}]


@pytest.mark.rule("trap 54")
def test_references_filed_under_other_nodes() -> None:
    """The library's first defect: each of its commits stores the chunks of higher nodes under lower ones, too. If the number of dimensions reveals it, they are
    not shown, listed, or kept."""
    store = MemoryStore()
    library = Library.create(store)
    library.repaired = False
    at = library.checkout("main")
    at.create_group("/", {})
    at.create_array("/plane", (4, 4), (2, 2))
    at.create_array("/line", (6,), (2,))
    at.write("/plane", np.arange(16, dtype="f4").reshape(4, 4))
    at.set_chunk("/plane", (1, 1), None)
    at.write("/line", np.arange(6, dtype="f4"))
    at.commit("main", "data")
    at.set_attributes("/", {"now": "damaged"})
    at.commit("main", "damage")
    (manifest,) = at.nodes["/plane"].manifests
    assert (2, (0,)) in library.manifest(manifest), "the defect is told rightly"
    expected = np.arange(16, dtype="f4").reshape(4, 4)
    expected[2:, 2:] = np.nan
    repo = frazil.Repository.open(store)
    for _ in range(2):
        session = repo.readonly_session()
        np.testing.assert_array_equal(session.root["plane"][...], expected)
        np.testing.assert_array_equal(session.root["line"][...], np.arange(6))
        assert session.store.list_prefix("plane/c/") == ["plane/c/0/0", "plane/c/0/1", "plane/c/1/0"]
        with repo.transaction(message="ours") as root:
            root["plane"][0, 0] = expected[0, 0] = expected[0, 0] + 1
    for path, node in library.checkout("main").nodes.items():
        found = [key for one in node.manifests for key in library.manifest(one) if key[0] == node.id]
        assert path != "/plane" or all(len(key) == 2 for _, key in found)


# --- the defect of arrays that share a manifest -------------------------------------------------------------------------------------------


AXES = ("lat", "lon", "time")


def axes(store: MemoryStore, length: int = 600, *, more: bool = False) -> tuple[frazil.Repository, Library]:
    """A compatible repository with three arrays of one chunk grid. Chunks of 513 bytes and more are native. more: also an array of two dimensions"""
    repo, library = compatible(store), Library(store, repaired=False)
    with repo.transaction(message="ours") as root:
        for number, name in enumerate(AXES):
            array = root.create_array(name, shape=(length,), dtype="f4", chunks=(length // 2,), codecs=["bytes"])
            array[...] = np.arange(length) + 1000 * (number + 1)
        if more:
            root.create_array("temp", shape=(4, 4), dtype="f4", chunks=(2, 2), codecs=["bytes"])[...] = 1
    return repo, library


def commit_of_library(library: Library, message: str) -> None:
    at = library.checkout("main")
    at.set_attributes("/", {"by": message})
    at.commit("main", message)


def manifests_of(library: Library) -> dict[str, list[set[int]]]:
    """For each array the nodes whose references its manifests contain."""
    nodes = library.checkout("main").nodes
    return {
        path: [{number for number, _ in library.manifest(manifest)} for manifest in node.manifests]
        for path, node in nodes.items()
        if node.metadata is not None
    }


@pytest.mark.rule("trap 54")
def test_every_array_has_manifests_of_its_own() -> None:
    """Also if it was not changed, in the commit that follows one of the library."""
    store = MemoryStore()
    repo, library = axes(store, more=True)
    for number in range(3):
        assert all(held == [{library.checkout("main").nodes[path].id}] for path, held in manifests_of(library).items())
        commit_of_library(library, f"theirs {number}")
        assert all(held == [{2, 3, 4, 5}] for held in manifests_of(library).values()), "the library is told rightly"
        for index, name in enumerate(AXES):
            np.testing.assert_array_equal(repo.readonly_session().root[name][...], np.arange(600) + 1000 * (index + 1))
        with repo.transaction(message=f"ours {number}") as root:
            root.attrs["n"] = number
    with repo.transaction(message="time alone") as root:
        root["time"][0] = -1
    listed = {manifest for node in library.checkout("main").nodes.values() for manifest in node.manifests}
    named = unpack(store.get(f"snapshots/{repo.lookup('main')}") or b"")[2]
    assert sorted(identity for identity, _ in named) == sorted(listed)


@pytest.mark.parametrize("length", [600, 20])
def test_references_that_the_library_mixed_up_are_refused(length: int) -> None:
    """Native ones are missing at once; inline ones if a reference of another rank reveals the defect."""
    store = MemoryStore()
    repo, library = axes(store, length, more=True)
    good = repo.lookup("main")
    commit_of_library(library, "first")
    commit_of_library(library, "second")
    session = repo.writable_session()
    for name in ("lat", "lon"):
        for read in (
            lambda name=name: session.root[name][...],
            lambda name=name: session.root[name][0],
            lambda name=name: session.store.get(f"{name}/c/0"),
            lambda name=name: session.root[name].nchunks_initialized,
        ):
            with pytest.raises(FormatError, match="418") as caught:
                read()
            assert caught.value.path == f"/{name}"
    assert session.root["time"][0] == 3000
    assert (session.root["temp"][...] == 1).all()
    session.root.attrs["a"] = 1
    with pytest.raises(FormatError, match="418"):
        session.commit("nothing to do with them")
    assert repo.readonly_session(snapshot=good).root["lat"][0] == 1000
    session.root["lat"][...] = 7  # whole: nothing of it is left
    del session.root["lon"]
    session.commit("mended")
    root = repo.readonly_session().root
    assert sorted(root) == ["lat", "temp", "time"]
    assert (root["lat"][...] == 7).all()
    assert root["time"][0] == 3000


def test_references_outside_the_grid_show_the_defect_too() -> None:
    store = MemoryStore()
    repo, library = compatible(store), Library(store, repaired=False)
    with repo.transaction(message="ours") as root:
        for name, length in (("short", 4), ("long", 8), ("other", 2)):
            root.create_array(name, shape=(length,), dtype="i4", chunks=(2,), codecs=["bytes"])[...] = length
    commit_of_library(library, "first")
    assert repo.readonly_session().root["short"][0] == 4
    commit_of_library(library, "second")
    root = repo.readonly_session().root
    with pytest.raises(FormatError, match="418"):
        root["short"][...]
    assert (root["other"][...] == 2).all()


def test_equal_chunks_alone_show_nothing() -> None:
    """Two arrays may have the same inline chunks: they are read, also together with others in a manifest of the library."""
    store = MemoryStore()
    repo, library = compatible(store), Library(store, repaired=False)
    with repo.transaction(message="ours") as root:
        for name in ("a", "b"):
            root.create_array(name, shape=(8,), dtype="i4", chunks=(2,), codecs=["bytes"])[...] = 5
    commit_of_library(library, "theirs")
    for _ in range(2):
        assert (repo.readonly_session().root["a"][...] == 5).all()
        with repo.transaction(message="ours") as root:
            root["b"][0] = 6
