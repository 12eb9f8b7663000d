"""Repositories for the alpha library (`compatible="alpha-library"`): Frazil writes nothing there that the library cannot open, drops or misreads.

We tried with the library itself, built from its source, what it accepts; these tests compare the bytes that we write with that."""

from __future__ import annotations

from pathlib import Path

import pytest

import frazil
from frazil.errors import InvalidInputError, NotFoundError
from frazil.formats.alpha.snapshots import decode_snapshot
from frazil.formats.nodes import NodeSnapshot
from frazil.repository.alpha.alpha_library import GUARD
from frazil.stores import LocalStore, MemoryStore, Store
from frazil.testing import CountingStore

ALPHA = "alpha-library"


def test_attributes_have_no_files() -> None:
    store = MemoryStore()
    with pytest.raises(InvalidInputError, match="attributes_file_bytes"):
        frazil.Repository.create(store, compatible=ALPHA, attributes_file_bytes=10)
    assert not frazil.Repository.exists(store)
    frazil.Repository.create(store, compatible=ALPHA)
    repo = frazil.Repository.open(store, attributes_file_bytes=10)
    assert repo.readonly_session().root.attrs == {}
    with pytest.raises(InvalidInputError, match="attributes_file_bytes"):
        repo.writable_session()
    with pytest.raises(InvalidInputError, match="attributes_file_bytes"):
        frazil.Repository.open_or_create(store, compatible=ALPHA, attributes_file_bytes=10)


def test_existing_repositories_keep_their_compatibility() -> None:
    store, other = MemoryStore(), MemoryStore()
    frazil.Repository.open_or_create(store)
    with pytest.raises(InvalidInputError, match=ALPHA):
        frazil.Repository.open_or_create(store, compatible=ALPHA)
    with pytest.raises(InvalidInputError, match="compatible"):
        frazil.Repository.open_or_create(store, compatible="beta")
    first = frazil.Repository.open_or_create(other, compatible=ALPHA)
    assert frazil.Repository.open_or_create(other, compatible=ALPHA).lookup("main") == first.lookup("main")
    assert frazil.Repository.open_or_create(other).lookup("main") == first.lookup("main")


@pytest.mark.parametrize("dtype", ["bool", "i1", "u1", "f4"])
@pytest.mark.parametrize("codecs", ["auto", [], ["bytes"], [{"name": "bytes"}, "crc32c"]])
def test_every_codec_has_a_configuration(dtype: str, codecs: str | list[str]) -> None:
    """The library writes null into documents if a codec is missing, and zarr-python does not open them."""
    store = MemoryStore()
    repo = frazil.Repository.create(store, compatible=ALPHA)
    with repo.transaction(message="one array") as root:
        root.create_array("a", shape=(4,), chunks=(2,), dtype=dtype, codecs=codecs)
    data = store.get(f"snapshots/{repo.lookup('main')}")
    assert data is not None
    node = decode_snapshot(data).nodes.get("/a")
    assert isinstance(node, NodeSnapshot)
    assert node.array is not None
    assert node.array.metadata.codecs
    assert all(codec.configuration is not None for codec in node.array.metadata.codecs)
    assert repo.readonly_session().root["a"].dtype == dtype


# --- branches --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a*b", "é", "~", "100%", "a#b", "[x]", 'a"b'])
@pytest.mark.parametrize("kind", [MemoryStore, LocalStore])
@pytest.mark.rule("I186")
def test_branches_that_the_library_cannot_open(name: str, kind: type[Store], tmp_path: Path) -> None:
    """It panics on names that it percent-encodes on a local disk. It can read tags with such names."""
    store = kind(tmp_path) if kind is LocalStore else kind()
    repo = frazil.Repository.create(store, compatible=ALPHA)
    before = store.list()
    with pytest.raises(InvalidInputError, match="panics"):
        repo.create_branch(name, "main")
    assert store.list() == before
    repo.create_tag(name, "main")
    assert repo.tags == [name]
    # a branch that the library itself created: S3 has it under its literal name, and it can be opened there
    folder = "".join([f"%{byte:02X}" if chr(byte) in '*~%#[]"' or byte > 127 else chr(byte) for byte in name.encode()])
    data = store.get("refs/branch.main/ZZZZZZZZ.json")
    assert data is not None
    store.set(f"refs/branch.{folder if kind is LocalStore else name}/ZZZZZZZZ.json", data)
    assert repo.branches == sorted(["main", name])
    assert repo.readonly_session(name).root.attrs == {}
    if kind is MemoryStore:
        with repo.transaction(name, message="in S3") as root:
            root.attrs["a"] = 1
        return
    for change in (lambda: repo.writable_session(name), lambda: repo.reset_branch(name, "main")):
        with pytest.raises(InvalidInputError, match="panics"):
            change()


@pytest.mark.parametrize("name", ["a b", "it works!", "feature.1", "a+b", "(a)&b'c", "x" * 200])
def test_branches_that_the_library_opens(name: str) -> None:
    repo = frazil.Repository.create(MemoryStore(), compatible=ALPHA)
    repo.create_branch(name, "main")
    with repo.transaction(name, message="one") as root:
        root.attrs["a"] = 1
    assert repo.branches == sorted(["main", name])


def test_branches_are_not_deleted() -> None:
    """The format cannot mark a branch as deleted, so the library would commit to it and bring it back."""
    store = MemoryStore()
    repo = frazil.Repository.create(store, compatible=ALPHA)
    repo.create_branch("dev", "main")
    before = store.list()
    with pytest.raises(InvalidInputError, match="would continue to commit"):
        repo.delete_branch("dev")
    assert store.list() == before
    with pytest.raises(InvalidInputError, match="cannot be deleted"):
        repo.delete_branch("main")
    with pytest.raises(NotFoundError):
        repo.delete_branch("other")


def test_an_unreadable_branch_is_deleted() -> None:
    store = MemoryStore()
    repo = frazil.Repository.create(store, compatible=ALPHA)
    store.set("refs/branch.dev/ZZZZZZZZ.json", b'{"snapshot":"00000000000000000000"}')
    repo.delete_branch("dev")
    assert repo.branches == ["main"]


# --- repositories that are not for it --------------------------------------------------------------------------------------------------


def test_the_library_is_kept_out_of_other_repositories(tmp_path: Path) -> None:
    """It takes the first name in the folder of `main` for a branch file, and stops with an error that shows the name."""
    frazil.Repository.create(tmp_path / "ours")
    frazil.Repository.create(tmp_path / "theirs", compatible=ALPHA)
    frazil.copy(tmp_path / "ours", tmp_path / "copy")
    for name, expected in (("ours", [GUARD]), ("copy", [GUARD]), ("theirs", [])):
        files = sorted(file.name for file in (tmp_path / name / "refs" / "branch.main").iterdir())
        assert files == [*expected, "ZZZZZZZZ.json"]
    assert GUARD < "00000000.json"
    assert not GUARD.endswith(".json")
    assert "compatible" in (tmp_path / "ours" / "refs" / "branch.main" / GUARD).read_text()


@pytest.mark.parametrize("branch", ["main", "dev"])
@pytest.mark.parametrize("compatible", [None, ALPHA])
def test_a_commit_keeps_the_library_out_of_repositories_of_earlier_versions(
    branch: str, compatible: str | None
) -> None:
    store = CountingStore(MemoryStore())
    repo = frazil.Repository.create(store, compatible=compatible)
    repo.create_branch("dev", "main")
    guard = f"refs/branch.main/{GUARD}"
    if compatible is None:
        store.erase(guard)

    def commit(repo: frazil.Repository, attribute: int) -> list[tuple[str, str]]:
        session = repo.writable_session(branch)
        session.root.attrs["a"] = attribute
        store.clear()
        session.commit("more")
        return [(request.operation, request.key) for request in store.requests]

    repo = frazil.Repository.open(store)
    first = commit(repo, 1)
    assert store.exists(guard) == (compatible is None)
    second = commit(repo, 2)
    assert guard not in [key for _, key in second], "once for each handle"
    if compatible is None:
        assert [key for operation, key in first if operation == "put" and key == guard] == [guard]
        later = commit(frazil.Repository.open(store), 3)
        assert ("put", guard) not in later
        if branch == "main":
            assert guard not in [key for _, key in later], "the listing of the branch told"
