"""frazil.copy: the same bytes under the same keys, in an order that never shows incomplete nodes; continued after faults and kills; refused if it would do
harm."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.faults.concurrent_calls import fork

import frazil
from frazil import Runtime
from frazil.errors import AlreadyExistsError, InvalidInputError, NotFoundError, StoreError
from frazil.operations.copy.journal import JOURNAL_NAME, Journal, parse_journal
from frazil.operations.copy.plan import ObjectFacts, in_order, is_document, is_reference, is_same
from frazil.stores import Changed, LocalStore, MemoryStore, Pieces, Store, Version, WrappedStore
from frazil.testing import CountingStore, Fault, FaultPlan, FaultyStore

VALUES = np.arange(3600, dtype=np.int32).reshape(60, 60)


def fill(store: Store) -> None:
    """A group with two arrays, one of them in shards; and a key of no node."""
    root = frazil.create_group(store, attributes={"title": "sea"})
    root.create_array("level1/temp", data=VALUES, chunks=(10, 10))
    root.create_array("salt", data=VALUES, chunks=(10, 10), shards=(30, 30))
    store.set("README", b"not Zarr")


def content(store: Store, root: str = "") -> dict[str, bytes | None]:
    return {key[len(root) :]: store.get(key) for key in store.list_prefix(root)}


@pytest.fixture
def source(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path / "source")
    fill(store)
    return store


class Ordered(WrappedStore):
    """Records keys as they are put."""

    __slots__ = ("order",)

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.order: list[str] = []

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        self.order += names
        return self.inner.put_many(names, pieces, expect)


# --- the result --------------------------------------------------------------------------------------------------------------------------

COMPONENT = st.sampled_from(
    [
        "a",
        "b",
        "c",
        "..a",
        " ",
        "\n",
        "ü\u0301",
        "😀",
        "~$&",
        "zarr.json",
        "refs",
        "branch.x",
        "meta",
        "-",
        "%2F",
        "a.__lockx",
    ]
)


@given(
    st.dictionaries(
        st.lists(COMPONENT, min_size=1, max_size=4).map("/".join), st.binary(max_size=9), min_size=1, max_size=20
    ),
    st.permutations(["memory", "folder", "remote"]),
)
def test_a_copy_is_the_same_keys_with_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, bytes], places: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("copy")
    makers: dict[str, Callable[[], Store]] = {
        "memory": MemoryStore,
        "folder": lambda: LocalStore(folder / "source"),
        "folder2": lambda: LocalStore(folder / "target"),
        "remote": lambda: CountingStore(MemoryStore()),
    }
    first, second = makers[places[0]](), makers[places[1]]()
    third = makers["folder2"]()
    kept = {name: value for name, value in values.items() if not any(other.startswith(name + "/") for other in values)}
    for name, value in kept.items():
        first.set(f"root/{name}", value)
    first.set("rooted", b"beside it")
    done = frazil.copy(first, second, path="root", verify=True)
    assert (done.keys, done.nbytes, done.found) == (len(kept), sum(map(len, kept.values())), 0)
    assert content(second) == kept
    frazil.copy(second, third, to="x/y")
    assert content(third) == {f"x/y/{name}": value for name, value in kept.items()}


def test_between_urls_and_folders(tmp_path: Path, source: LocalStore) -> None:
    reports: list[int] = []
    done = frazil.copy(source.path, "memory://copied/here", progress=reports.append)
    assert sum(reports) == done.nbytes
    assert (done.source, done.destination, done.kind) == (source.path, "memory://copied/here", "hierarchy")
    np.testing.assert_array_equal(frazil.open_array("memory://copied/here/salt")[...], VALUES)
    frazil.copy("memory://copied/here/level1", tmp_path / "one")
    np.testing.assert_array_equal(frazil.open_array(tmp_path / "one" / "temp")[...], VALUES)
    MemoryStore("copied").erase_prefix("")


def test_requests_are_few_and_values_never_decoded() -> None:
    memory = MemoryStore()
    fill(memory)
    for key in memory.list_prefix("level1/temp/c/"):
        memory.set(key, b"what no codec could read")
    source, target = CountingStore(memory), CountingStore(MemoryStore())
    frazil.copy(source, target)
    assert content(target.inner) == content(memory)
    keys = len(memory.list())
    assert (source.count("fetch"), source.count("look up")) == (keys, 1)  # for a journal
    assert target.count("put") == keys + 1  # the journal
    assert source.count("list") + target.count("list") + target.count("fetch") <= 8


@pytest.mark.parametrize("bytes_in_flight", [1, 2**12, 2**26])
def test_memory_is_bounded_and_large_values_come_whole(tmp_path: Path, bytes_in_flight: int) -> None:
    memory = MemoryStore()
    memory.set("large", np.random.default_rng(0).bytes(70_000 if bytes_in_flight > 1 else 300))
    memory.set("empty", b"")
    source = CountingStore(memory)
    frazil.copy(source, tmp_path / "copy", runtime=Runtime(bytes_in_flight=bytes_in_flight))
    assert content(LocalStore(tmp_path / "copy")) == content(memory)
    assert max(request.nbytes for request in source.requests) <= max(1, bytes_in_flight // 4)


# --- the order ---------------------------------------------------------------------------------------------------------------------------


def test_documents_come_last_the_root_at_the_end(source: LocalStore) -> None:
    target = Ordered(MemoryStore())
    frazil.copy(source, target)
    order = target.order
    assert order[0] == JOURNAL_NAME
    assert order[-1] == "zarr.json"
    first = min(order.index(key) for key in order if is_document(key))
    assert all(is_document(key) for key in order[first:])
    assert order.index("level1/temp/zarr.json") < order.index("level1/zarr.json")


@pytest.mark.parametrize("zarr_format", [3, "draft", "draft-2021"])
def test_document_keys_of_each_dialect(zarr_format: int | str) -> None:
    store = MemoryStore()
    root = frazil.create_group(store, zarr_format=zarr_format, explicit_groups=True)
    root.create_array("meta/array.group/a.array", data=VALUES, chunks=(30, 30), explicit_groups=True)
    documents = [key for key in store.list() if is_document(key)]
    assert len(store.list()) - len(documents) == 4
    assert in_order(documents)[-1] == ["zarr.json"]


def test_reference_keys() -> None:
    names = [
        "refs/branch.main/ZZZZZZZZ.json",
        "refs/branch.a/ZZZZZZZZ.json",
        "refs/tag.v1/ref.json",
        "x/zarr.json",
        "zarr.json",
    ]
    assert [is_reference(name) for name in names] == [True, True, True, False, False]
    assert is_reference("below/refs/tag.v1/ref.json")
    assert not is_reference("refs/other/ref.json")
    assert in_order(names) == [["x/zarr.json"], ["zarr.json"], [names[2]], [names[1]], [names[0]]]


# --- interrupted ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["fail", "cut", "lose"])
@pytest.mark.parametrize("call", [1, 2, 3, 5])
def test_after_a_fault_the_rest_is_copied(source: LocalStore, kind: str, call: int) -> None:
    memory = MemoryStore()
    runtime = Runtime(requests_in_flight=4)
    with pytest.raises(StoreError, match="injected"):
        frazil.copy(source, FaultyStore(memory, FaultPlan([Fault("put_many", call, kind)])), runtime=runtime)  # type: ignore[arg-type]
    before = set(memory.list())
    assert "zarr.json" not in before or kind == "lose"
    if before != {JOURNAL_NAME} and before:
        with pytest.raises(AlreadyExistsError, match="interrupted copy of something else"):
            frazil.copy({"zarr.json": b"{}"}, memory)
    target = CountingStore(memory)
    done = frazil.copy(source, target, runtime=runtime)
    assert content(memory) == content(source)
    assert (done.keys, done.found) == (len(content(source)), 0), "a size does not prove that it was copied"
    assert target.count("put") == done.keys + 1


def test_each_fault_in_reading_is_an_error_or_a_right_copy(source: LocalStore) -> None:
    for seed in range(20):
        memory = MemoryStore()
        for attempt in range(50):
            plan = FaultPlan(seed=100 * seed + attempt, rate=0.1)
            try:
                frazil.copy(FaultyStore(source, plan), FaultyStore(memory, plan))
            except StoreError:
                assert "zarr.json" not in memory.list() or memory.get("zarr.json") == source.get("zarr.json")
                continue
            break
        assert content(memory) == content(source)


def killed_copy(source: Path, target: Path, after: int) -> None:
    left = [after]

    def report(nbytes: int) -> None:
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    frazil.copy(source, target, progress=report, runtime=Runtime(threads=2))


@pytest.mark.parametrize("after", [1, 3, 9])
def test_after_a_kill_the_rest_is_copied_and_nothing_else_is_left(
    tmp_path: Path, source: LocalStore, after: int
) -> None:
    target = tmp_path / "target"
    pid = fork(partial(killed_copy, Path(source.path), target, after))
    assert os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    there = content(LocalStore(target))
    assert there.pop(JOURNAL_NAME) is not None
    assert len(there) < len(content(source))
    assert all(content(source)[name] == value for name, value in there.items()), "each is whole"
    if not any(is_document(name) for name in there):
        with pytest.raises(NotFoundError):
            frazil.open(target)
    done = frazil.copy(source, target)
    assert content(LocalStore(target)) == content(source)
    assert (done.keys, done.found) == (len(content(source)) - len(there), len(there))
    assert {path.name for path in target.rglob("*.__lock")} == set()


def test_changes_of_the_source_between_runs_are_copied(tmp_path: Path, source: LocalStore) -> None:
    target = LocalStore(tmp_path / "target")
    frazil.copy(source, target)
    target.set(JOURNAL_NAME, Journal(f"folder {source.path}/").emit())
    target.erase("salt/c/0/0")
    target.set("salt/c/1/0", b"short")
    target.set("salt/c/7/7", b"of a chunk that was erased")
    source.set("level1/temp/c/0/0", bytes(len(source.get("level1/temp/c/0/0") or b"")))
    done = frazil.copy(source, target)
    assert content(target) == content(source)
    assert (done.removed, done.keys, done.found) == (1, 3, len(content(source)) - 3)


def test_verifying_finds_other_bytes_of_the_same_size_and_time(source: LocalStore, tmp_path: Path) -> None:
    target = LocalStore(tmp_path / "target")
    frazil.copy(source, target)
    file = tmp_path / "target" / "salt" / "c" / "1" / "1"
    value, changed = file.read_bytes(), file.stat().st_mtime_ns
    for verify, right in ((False, False), (True, True)):
        file.write_bytes(bytes(len(value)))
        os.utime(file, ns=(changed, changed))
        target.set(JOURNAL_NAME, Journal(f"folder {source.path}/").emit())
        done = frazil.copy(source, target, verify=verify)
        assert (file.read_bytes() == value) is right
        assert (done.keys, done.found) == (int(right), len(content(source)) - int(right))


class Forgetful(WrappedStore):
    """Keeps zeros instead of the last byte."""

    __slots__ = ()

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        answers = self.inner.put_many(names, pieces, expect)
        for name in names:
            self.inner.set(name, (self.inner.get(name) or b"")[:-1] + b"\0")
        return answers


def test_verifying_tells_of_a_store_that_keeps_other_bytes(source: LocalStore) -> None:
    frazil.copy(source, Forgetful(MemoryStore()))
    with pytest.raises(StoreError, match="other bytes than the source"):
        frazil.copy(source, Forgetful(MemoryStore()), verify=True)


def test_keys_that_count_as_copied() -> None:
    assert is_same(ObjectFacts(3), ObjectFacts(3)) is None, "sizes alone prove nothing"
    assert is_same(ObjectFacts(3), ObjectFacts(4)) is False
    assert is_same(ObjectFacts(-1), ObjectFacts(-1)) is False
    assert is_same(ObjectFacts(3, None, 10), ObjectFacts(3, None, 10)) is True
    assert is_same(ObjectFacts(3, None, 10), ObjectFacts(3)) is None
    assert is_same(ObjectFacts(3, None, 10), ObjectFacts(3, None, 11)) is False
    a, b = b"0" * 31 + b"a", b"0" * 31 + b"b"
    assert is_same(ObjectFacts(3, b'"' + a + b'"'), ObjectFacts(3, a.upper())) is True
    assert is_same(ObjectFacts(3, a), ObjectFacts(3, b)) is False
    assert is_same(ObjectFacts(3, a), ObjectFacts(3, b + b"-2")) is None, (
        "what was put in parts has another kind of digest"
    )
    assert is_same(ObjectFacts(3, b"\0" * 8), ObjectFacts(3, b"\1" * 8)) is None, (
        "versions of one store say nothing of another's"
    )


def test_copy_journals_round_trip_and_others_are_refused() -> None:
    assert parse_journal(Journal("folder /a b").emit()) == Journal("folder /a b")
    assert parse_journal(Journal("folder /a b", True, "ab12").emit()) == Journal("folder /a b", True, "ab12")
    for value in (None, b"", b"{}", b"[]", b'{"frazil_copy": 1, "origin": 3}', b'{"frazil_copy": 2, "origin": "x"}'):
        assert parse_journal(value) is None


# --- refused ----------------------------------------------------------------------------------------------------------------------------------


def test_places_that_have_something_in_common_or_nothing(tmp_path: Path, source: LocalStore) -> None:
    here = Path(source.path)
    (tmp_path / "link").symlink_to(here)
    for target in (here, here / "below", tmp_path, tmp_path / "link" / "below"):
        with pytest.raises(InvalidInputError, match=r"same location|inside the other"):
            frazil.copy(here, target, overwrite=True)
    with pytest.raises(NotFoundError):
        frazil.copy(tmp_path / "nothing", tmp_path / "target")
    unfinished = MemoryStore()
    unfinished.set(JOURNAL_NAME, Journal("folder /x/").emit())
    with pytest.raises(InvalidInputError, match="not finished"):
        frazil.copy(unfinished, tmp_path / "target")
    with pytest.raises(InvalidInputError):
        frazil.copy(here, tmp_path / "target", progress=3)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError):
        frazil.copy(here, tmp_path / "target", runtime=3)  # type: ignore[arg-type]
    assert not (tmp_path / "target").exists()


def test_existing_destinations_are_replaced_only_on_request(tmp_path: Path, source: LocalStore) -> None:
    target = LocalStore(tmp_path / "target")
    for key in ("other/c/0", "zarr.json", "salt/zarr.json/below"):
        target.set(key, b"old")
    before = content(target)
    with pytest.raises(AlreadyExistsError, match="something already exists"):
        frazil.copy(source, target)
    assert content(target) == before
    frazil.copy(source, target, overwrite=True)
    assert content(target) == content(source)
    assert not (tmp_path / "target" / "other").exists()


def test_keys_that_a_disk_cannot_have_are_errors(tmp_path: Path) -> None:
    for names in (["a", "a/b"], ["x.__lock"], ["n" * 300]):
        memory = MemoryStore()
        for name in names:
            memory.set(name, b"1")
        with pytest.raises((StoreError, InvalidInputError)) as caught:
            frazil.copy(memory, tmp_path / "target", overwrite=True)
        assert caught.value.key in names


# --- repositories -----------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def repo(tmp_path: Path) -> frazil.Repository:
    repo = frazil.Repository.create(tmp_path / "sea.repo", durable=False)
    for number in range(3):
        with repo.transaction(message=f"change {number}") as root:
            root.require_array("t", shape=(60, 60), dtype="int32", chunks=(10, 10))[...] = VALUES + number
    repo.create_tag("v1", "main")
    repo.create_branch("dev", "v1")
    return repo


def test_a_repository_with_its_history(tmp_path: Path, repo: frazil.Repository) -> None:
    target = Ordered(MemoryStore())
    done = frazil.copy(tmp_path / "sea.repo", target)
    assert done.kind == "repository"
    assert content(target) == content(LocalStore(tmp_path / "sea.repo"))
    first = min(at for at, key in enumerate(target.order) if key.startswith("refs/"))
    assert all(key.startswith("refs/") for key in target.order[first:])
    assert target.order[-1].startswith("refs/branch.main/")
    other = frazil.Repository.open(target.inner)
    assert (other.branches, other.tags) == (repo.branches, repo.tags)
    assert [commit.id for commit in other.history()] == [commit.id for commit in repo.history()]
    np.testing.assert_array_equal(other.readonly_session().root["t"][...], VALUES + 2)
    with other.transaction(message="on") as root:
        root["t"][0] = 7
    for again in (False, True):
        with pytest.raises(AlreadyExistsError, match="a repository already exists"):
            frazil.copy({"zarr.json": b"{}"}, target.inner, overwrite=again)
    with pytest.raises(AlreadyExistsError, match="a repository already exists"):
        frazil.copy(tmp_path / "sea.repo", target.inner)
    frazil.copy(tmp_path / "sea.repo", target.inner, overwrite=True)
    assert content(target.inner) == content(LocalStore(tmp_path / "sea.repo"))


class Busy(WrappedStore):
    """Calls a function once, after chunks have been listed and copied."""

    __slots__ = ("act",)

    def __init__(self, inner: Store, act: Callable[[], object]) -> None:
        super().__init__(inner)
        self.act: Callable[[], object] | None = act

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        if self.act is not None and names[0] != JOURNAL_NAME:
            act, self.act = self.act, None
            act()
        return self.inner.put_many(names, pieces, expect)


def test_commits_that_come_meanwhile_are_left_out(tmp_path: Path, repo: frazil.Repository) -> None:
    def commit() -> None:
        with repo.transaction(message="meanwhile") as root:
            root["t"][...] = 0
        repo.garbage_collect()  # which records the new tip

    target = Busy(MemoryStore(), commit)
    tip = repo.lookup("main")
    frazil.copy(tmp_path / "sea.repo", target)
    assert repo.lookup("main") != tip
    other = frazil.Repository.open(target.inner)
    assert other.lookup("main") == tip
    np.testing.assert_array_equal(other.readonly_session().root["t"][...], VALUES + 2)
    assert other.verify().ok
    other.garbage_collect(now=True)


def test_an_interrupted_copy_of_a_repository_is_none_and_follows_the_source(
    tmp_path: Path, repo: frazil.Repository
) -> None:
    memory = MemoryStore()
    calls = 1
    while True:
        try:
            frazil.copy(tmp_path / "sea.repo", FaultyStore(memory, FaultPlan([Fault("put_many", calls)])))
            break
        except StoreError:
            if frazil.Repository.exists(memory):
                assert frazil.Repository.open(memory).lookup("main") == repo.lookup("main")
                for snapshot in frazil.Repository.open(memory).history():
                    frazil.Repository.open(memory).readonly_session(snapshot=snapshot.id)
        calls += 1
        repo.create_branch(f"b{calls}", "main")
    assert calls > 4
    assert content(memory) == content(LocalStore(tmp_path / "sea.repo"))


def test_a_snapshot_is_copied_to_plain_zarr_and_back(tmp_path: Path, repo: frazil.Repository) -> None:
    done = frazil.copy(repo.readonly_session(tag="v1").store, tmp_path / "v1.zarr", verify=True)
    assert done.kind == "hierarchy"
    np.testing.assert_array_equal(frazil.open_array(tmp_path / "v1.zarr" / "t")[...], VALUES + 2)
    session = repo.writable_session("dev")
    frazil.copy(tmp_path / "v1.zarr", session.store, to="copies/first")
    with pytest.raises(AlreadyExistsError):
        frazil.copy(tmp_path / "v1.zarr", session.store, to="copies/first")
    frazil.copy(tmp_path / "v1.zarr", session.store, to="copies/first", overwrite=True)
    session.commit("copied")
    np.testing.assert_array_equal(repo.readonly_session("dev").root["copies/first/t"][...], VALUES + 2)
    with pytest.raises(InvalidInputError, match="among the files of a repository"):
        frazil.copy(tmp_path / "v1.zarr", tmp_path / "sea.repo" / "inside")
    with pytest.raises(InvalidInputError, match="cannot be copied into another"):
        frazil.copy(tmp_path / "sea.repo", session.store)


def test_a_folder_of_repositories_and_arrays(tmp_path: Path, repo: frazil.Repository) -> None:
    fill(LocalStore(tmp_path / "all" / "a.zarr"))
    shutil.copytree(tmp_path / "sea.repo", tmp_path / "all" / "sea.repo")
    target = Ordered(MemoryStore())
    frazil.copy(tmp_path / "all", target)
    assert target.order[-1].startswith("sea.repo/refs/branch.main/")
    assert frazil.Repository.open(_below(target.inner)).lookup("main") == repo.lookup("main")


def _below(store: Store) -> Store:
    """The repository in it, as a separate store."""
    below = MemoryStore()
    frazil.copy(store, below, path="sea.repo")
    return below
