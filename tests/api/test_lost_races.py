"""Commits that others overtake between reading the branch and writing it: a retry reuses files as far as possible, and removes the rest.

Lost races without a retry are in tests/faults/test_interrupted_commits.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import frazil
from frazil.errors import CommitUnknownError, ConflictError, StoreError
from frazil.formats.ids import encode_id
from frazil.stores import MemoryStore
from frazil.stores.values import Changed, Pieces, Version
from tests.api.stored_files import read_snapshots

pytestmark = pytest.mark.usefixtures("each_format")

Rival = Callable[[frazil.Group, int], None]


class Overtaken(MemoryStore):
    """Before each of the next `races` writes of a branch, `rival` commits. written: how often a file was put, by name, except by rivals. fails: later writes of
    a branch get no answer, and are not done"""

    def __init__(self) -> None:
        super().__init__()
        self.races, self.fails = 0, False
        self.rival: Rival | None = None
        self.written: Counter[str] = Counter()

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        if self.rival is None:
            return super().put_many(names, pieces, expect)
        if names[0] == "state" or "branch" in names[0]:
            if self.races:
                self.races -= 1
                rival, self.rival = self.rival, None
                with frazil.Repository.open(self).transaction(message="rival") as root:
                    rival(root, self.races)
                self.rival = rival
            elif self.fails:
                raise StoreError("no answer")
        self.written.update(names)
        return super().put_many(names, pieces, expect)

    def counted(self, folder: str) -> int:
        """The number of files put in a folder; none may be put twice."""
        names = [name for name in self.written if name.startswith(folder)]
        assert all(self.written[name] == 1 for name in names)
        return len(names)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frazil.base.retry.time.sleep", lambda _: None)


def repository(store: MemoryStore, **options: object) -> frazil.Repository:
    repo = frazil.Repository.create(store, **options)  # type: ignore[arg-type]
    with repo.transaction(message="first") as root:
        for name in ("mine", "theirs"):
            root.create_array(name, data=np.zeros(4000, "u1"), chunks=(1000,), codecs=["bytes"])
    return repo


def session_with_changes(repo: frazil.Repository) -> frazil.Session:
    session = repo.writable_session()
    session.root["mine"][...] = np.arange(4000) % 251
    session.root.attrs["text"] = "long" * 100
    return session


def mark(root: frazil.Group, number: int) -> None:
    root["theirs"].attrs["number"] = number


def write(root: frazil.Group, number: int) -> None:
    root["theirs"][number % 4000] = number % 255


@pytest.mark.parametrize("packing", ["auto", "off"])
@pytest.mark.parametrize("rival", [mark, write])
def test_lost_races_write_manifests_once(rival: Rival, packing: str) -> None:
    store = Overtaken()
    repo = repository(store, chunk_packing=packing, attributes_file_bytes=100)
    session = session_with_changes(repo)
    before = Counter(name.partition("/")[0] for name in store.list())
    store.rival, store.races = rival, 40
    snapshot = session.commit("mine", rebase="disjoint")
    store.rival = None
    assert store.races == 0
    assert store.counted("manifests/") == 1
    assert store.counted("attributes/") <= 1  # the format in memory writes none
    assert store.counted("snapshots/") == 41, "each attempt has a snapshot, which names its parent"
    left = Counter(name.partition("/")[0] for name in store.list())
    assert left["snapshots"] == before["snapshots"] + 41, "only the last of them stays, beside those of the rivals"
    assert [commit.message for commit in repo.history()].count("rival") == 40
    check_every_file_is_used(store)
    again = frazil.Repository.open(store).readonly_session(snapshot=snapshot)
    np.testing.assert_array_equal(again.root["mine"][...], np.arange(4000) % 251)
    assert again.root.attrs["text"] == "long" * 100
    with repo.transaction(message="next") as root:  # whose manifests consist of the reused ones
        root["mine"][0] = 9
    assert frazil.Repository.open(store).readonly_session().root["mine"][:2].tolist() == [9, 1]


def check_every_file_is_used(store: MemoryStore) -> None:
    """The manifests and attribute files in the store are those that its snapshots name."""
    named: set[str] = set()
    for snapshot in read_snapshots(store).values():
        named |= {f"manifests/{encode_id(info.id)}" for info in snapshot.manifest_files}
        named |= {f"attributes/{encode_id(info.id)}" for info in snapshot.attribute_files}
    assert named == {*store.list_prefix("manifests/"), *store.list_prefix("attributes/")}


def test_files_that_a_retry_cannot_use_are_removed() -> None:
    """Each rival writes to the same array, so that its manifests are merged again."""
    store = Overtaken()
    repo = repository(store, attributes_file_bytes=100)
    session = session_with_changes(repo)
    session.root["mine"][0:1000] = 0  # the values that the rivals write
    store.rival, store.races = lambda root, number: root["mine"].__setitem__(0, 1 + number % 200), 30
    session.commit("mine", rebase="disjoint")
    store.rival = None
    assert store.races == 0
    check_every_file_is_used(store)
    assert repo.readonly_session().root["mine"][[0, 1000]].tolist() == [1, 1000 % 251]


def test_a_commit_that_gives_up_leaves_nothing() -> None:
    """It gives up because the second rival writes the same chunk."""
    store = Overtaken()
    repo = repository(store)
    session = session_with_changes(repo)

    def rival(root: frazil.Group, left: int) -> None:
        root["mine" if not left else "theirs"][0] = 77

    store.rival, store.races = rival, 3
    with pytest.raises(ConflictError):
        session.commit("mine", rebase="disjoint")
    store.rival = None
    assert store.races == 0
    assert store.counted("manifests/") == 1
    check_every_file_is_used(store)
    session.commit("mine", rebase="ours")
    assert repo.readonly_session().root["mine"][:3].tolist() == [0, 1, 2]


@pytest.mark.parametrize("then", ["commit", "rival"])
def test_a_manifest_that_an_unknown_commit_uses_again_stays(then: str) -> None:
    """Only until it is known that the commit did not happen: then it is removed like every other."""
    store = Overtaken()
    repo = repository(store)
    session = session_with_changes(repo)
    store.rival, store.races, store.fails = write, 2, True
    with pytest.raises(CommitUnknownError):
        session.commit("mine", rebase="disjoint")
    assert store.races == 0
    (manifest,) = [name for name in store.written if name.startswith("manifests/")]
    assert manifest in store.list()
    store.rival = None
    if then == "rival":
        with repo.transaction(message="rival") as root:
            write(root, 9)
    session.commit("mine", rebase="disjoint")
    assert manifest not in store.list(), "the next attempts wrote their own"
    check_every_file_is_used(store)
    np.testing.assert_array_equal(repo.readonly_session().root["mine"][...], np.arange(4000) % 251)


def test_new_nodes_that_get_other_ids_have_manifests_of_their_own() -> None:
    """The rival creates a node, too, so that the manifest of the session names an id that now belongs to another node."""
    store = Overtaken()
    repo = repository(store)
    session = repo.writable_session()
    session.root.create_array("new", data=np.arange(40), chunks=(10,))
    store.rival, store.races = lambda root, number: root.create_array(f"at {number}", data=[number], chunks=(1,)), 3
    session.commit("mine", rebase="disjoint")
    store.rival = None
    check_every_file_is_used(store)
    root = frazil.Repository.open(store).readonly_session().root
    assert root["new"][...].tolist() == list(range(40))
    assert [root[f"at {number}"][0] for number in range(3)] == [0, 1, 2]
