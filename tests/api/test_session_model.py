"""Sessions, branches, readers and forks against a plain model: whatever is done, every snapshot that was ever committed reads as it was, and the files hold together."""

from __future__ import annotations

import copy
import pickle
import shutil
import tempfile
import uuid
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

import frazil
from frazil.errors import ConflictError
from frazil.stores import LocalStore, MemoryStore, Store
from tests.api.session_model import (
    OPERATIONS,
    PATHS,
    Log,
    Node,
    Side,
    State,
    act,
    begin,
    check,
    may_conflict,
    merge,
)
from tests.api.stored_files import check_files

SESSIONS = 3
numbers = st.integers(0, 2**10)
which = st.integers(0, SESSIONS - 1)
operations = st.tuples(st.sampled_from(OPERATIONS), numbers, numbers, st.integers(0, 200))


@dataclass
class Commit:
    """A snapshot of the model. log: what was done since its parent"""

    parent: str | None
    state: State
    log: Log


@dataclass
class Open:
    """A writable session, and its model. base: the snapshot that it began from"""

    session: frazil.Session
    side: Side
    branch: str
    base: str


class Sessions(RuleBasedStateMachine):
    """Three sessions on branches of one repository."""

    store: Store
    repo: frazil.Repository

    @initialize(
        compatible=st.booleans(), packing=st.booleans(), limit=st.sampled_from([None, 0, 40]), local=st.booleans()
    )
    def create(self, compatible: bool, packing: bool, limit: int | None, local: bool) -> None:
        self.folder = tempfile.mkdtemp() if local else None
        self.store = LocalStore(self.folder) if self.folder else MemoryStore(f"sessions {uuid.uuid4()}")
        self.options: dict[str, object] = {
            "durable": False,
            "chunk_packing": "auto" if packing else "off",
            "attributes_file_bytes": None if compatible else limit,
        }
        self.compatible = compatible
        self.repo = frazil.Repository.create(
            self.store, compatible="alpha-library" if compatible else None, **self.options
        )  # type: ignore[arg-type]
        side = begin({"": Node(-1)})
        with self.repo.transaction(message="root") as root:
            root.attrs["a"] = 0
            side.state[""].attributes["a"] = 0
            for number, path in enumerate(("a/a", "a/b", "c/a", "b", "c/b")):
                assert act(root, side, ("array", PATHS.index(path), number, 5))
        self.commits: dict[str, Commit] = {}
        tip = self.repo.lookup("main")
        self.commits[tip] = Commit(None, side.state, Log())
        self.branches = {"main": tip}
        self.tags: dict[str, str] = {}
        self.readers: list[tuple[frazil.Session, str]] = []
        self.open: list[Open | None] = [None] * SESSIONS
        self.made = 0
        self.forked = False

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.erase_prefix("")
        if getattr(self, "folder", None):
            shutil.rmtree(str(self.folder))

    # --- sessions ------------------------------------------------------------------------------------------------------------------

    def _session(self, number: int) -> Open:
        """The session of this number, opened on some branch where it is not."""
        found = self.open[number]
        if found is None:
            branches = sorted(self.branches)
            branch = branches[self.made % len(branches)] if number == 2 else "main"
            tip = self.branches[branch]
            found = Open(self.repo.writable_session(branch), begin(self.commits[tip].state), branch, tip)
            self.open[number] = found
        return found

    @rule(number=which, batch=st.lists(operations, min_size=1, max_size=4))
    def change(self, number: int, batch: list[tuple[str, int, int, int]]) -> None:
        one = self._session(number)
        for operation in batch:
            act(one.session.root, one.side, operation)

    @rule(
        number=which,
        first=st.lists(operations, max_size=3),
        second=st.lists(operations, max_size=3),
        travels=st.booleans(),
    )
    def work(
        self,
        number: int,
        first: list[tuple[str, int, int, int]],
        second: list[tuple[str, int, int, int]],
        travels: bool,
    ) -> None:
        """Two forks work, one after the other comes back."""
        one = self._session(number)
        self.forked = True
        for batch in (first, second):
            fork = one.session.fork()
            if travels:
                fork = pickle.loads(pickle.dumps(fork))
            for operation in batch:
                act(fork.root, one.side, operation)
            check(fork.root, one.side.state)
            one.session.merge(pickle.loads(pickle.dumps(fork)) if travels else fork)
            check(one.session.root, one.side.state)

    @rule(
        first=st.lists(operations, min_size=1, max_size=3),
        second=st.lists(operations, min_size=1, max_size=3),
        how=st.sampled_from(["disjoint", "rebase"]),
    )
    def race(self, first: list[tuple[str, int, int, int]], second: list[tuple[str, int, int, int]], how: str) -> None:
        """Two begin from one state, and both commit."""
        for number in (0, 1):
            self.close(number)
            self._session(number)
        for number, batch in enumerate((first, second)):
            self.change(number, batch)
        self.commit(0, None)
        self.commit(1, how)

    @rule(number=which)
    def look(self, number: int) -> None:
        one = self._session(number)
        check(one.session.root, one.side.state)

    @rule(number=which)
    def discard(self, number: int) -> None:
        one = self._session(number)
        one.session.discard()
        one.side = begin(one.side.base)
        check(one.session.root, one.side.state)

    @rule(number=which)
    def close(self, number: int) -> None:
        if self.open[number] is not None:
            self._session(number).session.discard()
            self.open[number] = None

    @rule(number=which, how=st.sampled_from([None, "disjoint", "disjoint", "rebase"]))
    def commit(self, number: int, how: str | None) -> None:
        one = self._session(number)
        tip = self.branches.get(one.branch)
        if tip is None:
            with pytest.raises(ConflictError):
                one.session.commit("too late", allow_empty=True)
            return
        try:
            if how == "rebase":
                one.session.rebase()
                self._rebased(one)
                check(one.session.root, one.side.state)
            identity = one.session.commit(
                "commit", metadata={"number": self.made}, rebase=None if how == "rebase" else how, allow_empty=True
            )
        except ConflictError as error:
            conflicts, told = error.conflicts, str(error)
        else:
            self._rebased(one)
            self._committed(one, identity)
            return
        check(one.session.root, one.side.state)
        if how is not None:
            theirs = self._since(tip, one.base)
            assert conflicts, told
            assert theirs is None or may_conflict(one.side.log, theirs), told
            one.session.discard()  # it would conflict for ever
            self.open[number] = None

    def _since(self, tip: str, base: str) -> Log | None:
        """What was committed between two snapshots; None where one does not come from the other."""
        log, at = Log(), tip
        while at != base:
            commit = self.commits[at]
            log.add(commit.log)
            if commit.parent is None:
                return None
            at = commit.parent
        return log

    def _rebased(self, one: Open) -> None:
        tip = self.branches[one.branch]
        if tip != one.base:
            state = merge(one.side, self.commits[tip].state)
            one.side = Side(self.commits[tip].state, state, one.side.log)
            one.base = tip

    def _committed(self, one: Open, identity: str) -> None:
        self.made += 1
        parent = self.branches[one.branch]
        self.commits[identity] = Commit(parent, copy.deepcopy(one.side.state), one.side.log)
        self.branches[one.branch] = identity
        one.side, one.base = begin(self.commits[identity].state), identity
        check(one.session.root, one.side.state)
        self.readers.append((self.repo.readonly_session(one.branch), identity))
        self._all_is_well()

    # --- branches, tags, time ----------------------------------------------------------------------------------------------------------

    def _some_commit(self, number: int) -> str:
        every = list(self.commits)
        return every[number % len(every)]

    @rule(number=numbers, name=st.sampled_from("xyz"))
    def branch(self, number: int, name: str) -> None:
        at = self._some_commit(number)
        if name not in self.branches:
            self.repo.create_branch(name, at)
            self.branches[name] = at
        elif number % 3 == 0:
            self.repo.delete_branch(name)
            del self.branches[name]
        else:
            self.repo.reset_branch(name, at, expect=self.branches[name])
            self.branches[name] = at

    @rule(number=numbers)
    def reset_main(self, number: int) -> None:
        at = self._some_commit(number)
        self.repo.reset_branch("main", at)
        self.branches["main"] = at

    @rule(number=numbers)
    def tag(self, number: int) -> None:
        name, at = f"t{len(self.tags)}", self._some_commit(number)
        self.repo.create_tag(name, at)
        self.tags[name] = at

    @rule(first=numbers, second=numbers)
    def difference(self, first: int, second: int) -> None:
        old, new = self._some_commit(first), self._some_commit(second)
        found = self.repo.diff(old, new)
        before, after = self.commits[old].state, self.commits[new].state
        if self.compatible:
            return
        was, now = ({node.uid: "/" + path for path, node in state.items()} for state in (before, after))
        assert found.added == tuple(sorted(path for uid, path in now.items() if uid not in was))
        assert found.removed == tuple(sorted(path for uid, path in was.items() if uid not in now))
        assert found.renamed == tuple(
            sorted((was[uid], now[uid]) for uid in was.keys() & now.keys() if was[uid] != now[uid])
        )
        for uid in was.keys() & now.keys():
            one, other = before[was[uid][1:]], after[now[uid][1:]]
            assert (now[uid] in found.attributes) == (one.attributes != other.attributes)
            if one.values is not None and other.values is not None:
                assert (now[uid] in found.resized) == (one.values.shape != other.values.shape)
                if now[uid] not in found.resized and now[uid] not in found.chunks:
                    np.testing.assert_array_equal(one.values, other.values)

    def _all_is_well(self) -> None:
        """Every snapshot, for somebody who remembers nothing; and the files."""
        repo = frazil.Repository.open(self.store, **self.options)  # type: ignore[arg-type]
        for identity, commit in self.commits.items():
            check(repo.readonly_session(snapshot=identity).root, commit.state)
        for name, tip in self.branches.items():
            history = [commit.id for commit in repo.history(name)]
            at: str | None = tip
            for found in history[:-1]:
                assert found == at
                at = self.commits[found].parent
            assert at is None
        for reader, identity in self.readers[-4:]:
            check(reader.root, self.commits[identity].state)
        assert repo.branches == sorted(self.branches)
        assert {name: repo.lookup_tag(name) for name in repo.tags} == self.tags
        check_files(self.store)

    @rule()
    def close_all(self) -> None:
        """When nobody has changes, only packs may lie about that nothing refers to, and what forks and their parents both had."""
        for number in range(SESSIONS):
            self.close(number)
        self._all_is_well()
        packs = self.options["chunk_packing"] == "auto" and not self.compatible
        check_files(self.store, garbage=packs or self.forked)

    @rule(number=numbers)
    def travel(self, number: int) -> None:
        identity = self._some_commit(number)
        (commit,) = [commit for commit in self.repo.history(identity) if commit.id == identity]
        at = commit.written_at
        reader = self.repo.readonly_session(snapshot=identity, as_of=at)
        check(reader.root, self.commits[reader.snapshot_id].state)
        assert reader.snapshot_id == identity


def test_sessions_and_their_model() -> None:
    run_state_machine_as_test(Sessions, settings=settings(max_examples=8, stateful_step_count=10))


@pytest.mark.campaign
def test_many_sessions_and_their_model() -> None:
    run_state_machine_as_test(Sessions, settings=settings(max_examples=1500, stateful_step_count=50))
