"""Two to four sessions of one repository, step by step, compared with a plain model. The effect of a step depends only on its seed and the current state.

programs.py creates the programs; changes.py has the parts that two sides touch, and lost changes."""

from __future__ import annotations

import pickle
import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np

import frazil
from frazil.errors import CommitUnknownError, ConflictError, FrazilError, NotFoundError, ReadOnlyError, StoreError
from frazil.stores import LocalStore, MemoryStore
from frazil.testing.simulation.hierarchy import Act, Node, State, act_on, acted, choose, difference, read, shapes
from frazil.testing.simulation.merged_changes import Side, lost, merged, paths_of
from frazil.testing.simulation.plan import ACTS
from tests.model.changes import Log, is_at, log_of, may_conflict, shift_edges, state_of, without_idle
from tests.model.inspections import Commit
from tests.model.interrupting_store import INTERRUPTS, InterruptingStore
from tests.model.merges import Merging
from tests.model.programs import MEETINGS, SAME_PLACE, Step

_ON_DISK = 0.05  # of the runs
_TRIES = 60  # draws of a change at a place
FIRST = (("a/a", "inline", 3), ("a/b", "filed", 3), ("b", "inline", 5), ("c", "sharded", 2))


@dataclass
class Open:
    """A writable session and its model. began: the snapshot that it is based on; forks: with their models; reads: the reads of a serializable one, by uid"""

    session: frazil.Session
    began: str
    side: Side
    log: Log = field(default_factory=Log)
    serializable: bool = False
    reads: dict[tuple[str, int], np.ndarray] = field(default_factory=dict)
    forks: list[Forked] = field(default_factory=list)
    handles: dict[tuple[str, int], frazil.Array] = field(default_factory=dict)
    tokens: list[str] = field(default_factory=list)
    unsure: bool = False  # a commit was interrupted


@dataclass
class Forked:
    """A fork and its model. since: the changes of its session after the fork"""

    session: frazil.Session
    side: Side
    log: Log = field(default_factory=Log)
    since: Log = field(default_factory=Log)
    reads: dict[tuple[str, int], np.ndarray] = field(default_factory=dict)


def fails(seed: int, steps: Sequence[Step], without: Sequence[str] = ()) -> BaseException | None:
    """The error that ends a program, if one does."""
    try:
        Run(seed, without).run(steps)
    except (AssertionError, FrazilError, TypeError, LookupError, ValueError, AttributeError) as error:
        return error
    return None


class Run(Merging):
    """One program: the repository, the sessions, and the model. trace: the steps done, in words"""

    def __init__(self, seed: int, without: Sequence[str] = ()) -> None:
        random = Random(f"run {seed}")
        self.without = without
        often = {**ACTS, "swap": 4, "move": 2, "attribute": 3}  # which fail only in combination with others
        weights = {name: weight * random.choice((0, 1, 3)) for name, weight in often.items() if name not in without}
        self.acts = [name for name, weight in weights.items() for _ in range(weight)] or ["write"]
        options: dict[str, object] = {"chunk_packing": random.choice(("auto", "off")), "durable": False}
        self.serializable = random.random() < 0.5
        options["compatible"] = random.choice((None, None, None, "alpha-library"))
        options["attributes_file_bytes"] = None if options["compatible"] else random.choice((None, 0, 40))
        super().__init__(InterruptingStore(self._on_disk() if random.random() < _ON_DISK else MemoryStore()), options)
        self.trace: list[str] = []
        state: dict[str, Node] = {"": Node(("first", 0))}
        with self.repo.transaction(message="first") as root:
            for number, (path, kind, value) in enumerate(FIRST, 1):
                act = Act("array", path, kind, value=value)
                act_on(root, act)
                state = acted(state, act, "first", number)
        self.observer = frazil.Repository.open(self.store.inner)
        self.tip = self.observer.lookup("main")
        self.commits = {self.tip: Commit(None, state, Log())}
        self.open: dict[int, Open] = {}
        self.made = 0

    def _on_disk(self) -> LocalStore:
        folder = tempfile.mkdtemp()
        weakref.finalize(self, shutil.rmtree, folder)
        return LocalStore(folder)

    def run(self, steps: Sequence[Step]) -> None:
        for number, step in enumerate(steps):
            self.trace.append(f"{number}: {step.kind} in session {step.session}")
            random = Random(step.seed)
            one = self._open(step.session)
            getattr(self, f"_{step.kind}")(one, random, f"{step.seed}")
            if self.store.fired:
                self._after_interrupt(step.session)
        for one in self.open.values():
            self._compare(one)
        self._check_all()
        for one in self.open.values():
            one.session.discard()
        self._check_litter()

    # --- sessions ------------------------------------------------------------------------------------------------------------------

    def _open(self, number: int) -> Open:
        if number not in self.open:
            serializable = self.serializable and number % 2 == 0
            session = self.repo.writable_session(isolation="serializable" if serializable else "snapshot")
            assert session.snapshot_id == self.tip, "a session begins from the tip"
            state = self.commits[self.tip].state
            self.open[number] = Open(session, self.tip, Side(state, state), serializable=serializable)
        return self.open[number]

    def _close(self, one: Open) -> None:
        self.open = {number: other for number, other in self.open.items() if other is not one}

    def _compare(self, one: Open) -> None:
        if one.serializable:  # looking would count as a read
            return
        deviation = difference(read(one.session.root), one.side.state)
        assert deviation is None, f"a session shows something else than it did: {deviation}"

    def _did(self, one: Open, act: Act, side: Side) -> None:
        log = log_of(one.side.state, act, side.state)
        one.log.add(log)
        for fork in one.forks:
            fork.since.add(log)
        one.side = side

    def _guarded(self, action: Callable[[], object]) -> bool:
        """Whether it was done; False if the interrupt came."""
        self.store.live = True
        try:
            action()
        except (KeyboardInterrupt, SystemExit, MemoryError, StoreError) as error:
            if not self.store.fired:
                raise
            self.trace.append(f"  interrupted: {error!r}")
            return False
        finally:
            self.store.live = False
        return True

    def _after_interrupt(self, number: int) -> None:
        """Half-done work after an interrupt is dropped; a commit may have happened."""
        self.store.disarm()
        self.litter = True
        one = self.open.get(number)
        if one is None:
            return
        if not one.unsure:
            self._close(one)
            one.session.discard()
            return
        commits = list(self.observer.history())
        happened = commits[0].id != self.tip
        if happened:
            self.trace.append("  it was committed all the same")
            self._note(one, commits[0].id)
        if Random(number).random() < 0.5:
            self._commit_again(one, happened=happened)
        else:
            one.session.discard()
        self._close(one)
        self._check_all()

    def _commit_again(self, one: Open, *, happened: bool) -> None:
        """The same session finds the outcome, if it does not know it yet: it does if the interrupt came later, while old files were removed."""
        if one.session.snapshot_id == self.tip and not one.session.has_changes:
            return
        one.tokens.append("again")
        try:
            identity = one.session.commit("again", metadata={"token": "again"}, rebase="disjoint", allow_empty=True)
        except ConflictError:
            assert not happened, "what was committed conflicts with itself"
            return
        if happened:
            assert identity == self.tip, "it is there once"
        else:
            self._note(one, identity)

    # --- steps ---------------------------------------------------------------------------------------------------------------------

    def _chosen(self, random: Random, side: Side) -> Act | None:
        """A change that is possible. Half of the attributes are those of the root, so that two sessions often change the same."""
        act = choose(random, self.acts, shapes(side.state))
        return act._replace(path="") if act is not None and act.name == "attribute" and random.random() < 0.5 else act

    def _act(self, one: Open, random: Random, token: str) -> None:
        act = self._chosen(random, one.side)
        if act is not None and self._change(one, act, token) and act.path in one.side.state and random.random() < 0.5:
            node = one.side.state[act.path]
            if node.values is not None:
                one.handles[node.uid] = one.session.root[act.path]  # type: ignore[assignment]

    def _change(self, one: Open, act: Act, token: str) -> bool:
        """Whether it was done."""
        self.trace.append(f"  {act}")
        if not self._guarded(lambda: act_on(one.session.root, act)):
            return False
        self._did(one, act, one.side.after(act, token, 0))
        return True

    def _meet(self, one: Open, random: Random, token: str) -> None:
        """A change at a place that it has in common with the steps of other sessions whose seeds are near."""
        place = Random(int(token) // SAME_PLACE)
        names, paths = place.choice(MEETINGS)
        at, present = place.choice(paths), shapes(one.side.state)
        for _ in range(_TRIES):
            act = choose(random, [random.choice(names)], present)
            if act is not None and is_at(act, at):
                self._change(one, act, token)
                return

    def _handle(self, one: Open, random: Random, token: str) -> None:
        """An operation by a handle that was opened before. If the array has moved since, it may be refused; if it is gone, nothing may happen."""
        if not one.handles:
            return
        uid = random.choice(sorted(one.handles))
        handle = one.handles[uid]
        path = next((path for path, node in one.side.state.items() if node.uid == uid), None)
        act = None
        if path is not None:
            now = one.side.state[path].values
            assert now is not None
            names = [name for name in self.acts if name in ("write", "append", "undo", "unappend", "resize")]
            name = random.choice(names or ["write"])
            # a handle has the last shape that it saw; operations that change the shape read it again
            try:
                seen = tuple(map(min, handle.shape, now.shape)) if name in ("write", "undo") else now.shape
            except (NotFoundError, ConflictError) as error:
                self.trace.append(f"  an old handle of {path} is refused: {error}")
                return
            act = choose(random, [name], {path: seen})
        self.trace.append(f"  by an old handle of {path}: {act}")
        if act is not None:
            side = one.side.after(act, token, 0)
            done = []
            try:
                done.append(self._guarded(lambda: act_on(one.session.root, act, {act.path: handle})))
            except (NotFoundError, ConflictError, ReadOnlyError) as error:
                self.trace.append(f"  refused: {error}")
            if done == [True]:
                self._did(one, act, side)
        elif path is None:
            try:
                if not self._guarded(lambda: handle.__setitem__(slice(0, 1), 9)):
                    return
            except FrazilError as error:
                self.trace.append(f"  refused: {error}")
            self._compare(one)

    def _fork(self, one: Open, random: Random, _: str) -> None:
        fork = one.session.fork()
        self.litter = True
        if random.random() < 0.5:
            fork = pickle.loads(pickle.dumps(fork))
        one.forks.append(Forked(fork, one.side.began()))

    def _fork_act(self, one: Open, random: Random, token: str) -> None:
        if not one.forks:
            return
        fork = random.choice(one.forks)
        act = self._chosen(random, fork.side)
        if act is None:
            return
        self.trace.append(f"  in fork {one.forks.index(fork)}: {act}")
        if self._guarded(lambda: act_on(fork.session.root, act)):
            side = fork.side.after(act, token, 0)
            fork.log.add(log_of(fork.side.state, act, side.state))
            fork.side = side

    def _merge(self, one: Open, random: Random, _: str) -> None:
        if not one.forks:
            return
        self._merge_fork(one, one.forks.pop(random.randrange(len(one.forks))), random)

    def _merge_fork(self, one: Open, fork: Forked, random: Random) -> None:
        came = pickle.loads(pickle.dumps(fork.session)) if random.random() < 0.5 else fork.session
        try:
            if not self._guarded(lambda: one.session.merge(came)):
                return
        except ConflictError:
            allowed = may_conflict(fork.log, fork.since)
            assert allowed, "a fork conflicts with what it does not touch"
            self._compare(one)
            return
        state = self._shown(one, list(merged(fork.side, one.side.state)), "a merge")
        one.log.add(fork.log)
        for other in one.forks:
            other.since.add(fork.log)
        one.reads |= {uid: seen for uid, seen in fork.reads.items() if uid not in one.reads}
        one.side = one.side._replace(
            state=state, appended=one.side.appended | fork.side.appended, resized=one.side.resized | fork.side.resized
        )

    def _read(self, one: Open, random: Random, _: str) -> None:
        self._read_from(one.session, one.side, one.reads, one, random)

    def _fork_read(self, one: Open, random: Random, _: str) -> None:
        if one.forks:
            fork = random.choice(one.forks)
            self._read_from(fork.session, fork.side, fork.reads, one, random)

    def _read_from(
        self, session: frazil.Session, side: Side, reads: dict[tuple[str, int], np.ndarray], one: Open, random: Random
    ) -> None:
        """Reads an array; the commit of a serializable session then depends on it."""
        arrays = sorted(path for path, node in side.state.items() if node.values is not None and node.values.size)
        if not arrays:
            return
        path = min(random.choice(arrays), random.choice(arrays))  # as changes are made
        node = side.state[path]
        assert node.values is not None
        self.trace.append(f"  reads {path}")
        seen: list[np.ndarray] = []
        if not self._guarded(lambda: seen.append(np.asarray(session.root[path][...]))):  # type: ignore[index]
            return
        np.testing.assert_array_equal(seen[0], node.values)
        base = {node.uid: node for node in one.side.base.values()}.get(node.uid)
        if one.serializable and base is not None and base.values is not None and np.array_equal(base.values, seen[0]):
            reads[node.uid] = seen[0]

    def _skew(self, one: Open, random: Random, token: str) -> None:
        self._fork(one, random, token)
        fork = one.forks[-1]
        self._read_from(fork.session, fork.side, fork.reads, one, random)
        act = choose(random, ["write"], shapes(fork.side.state))
        if act is not None and not self.store.fired and self._guarded(lambda: act_on(fork.session.root, act)):
            side = fork.side.after(act, token, 0)
            fork.log.add(log_of(fork.side.state, act, side.state))
            fork.side = side
        if not self.store.fired:
            one.forks.remove(fork)
            self._merge_fork(one, fork, random)

    def _rebase(self, one: Open, random: Random, _: str) -> None:
        if one.forks and "fork" in self.without:
            return
        try:
            if not self._guarded(one.session.rebase):
                return
        except ConflictError as error:
            self._check_conflict(one, error)
            return
        self._rebased(one)

    def _rebased(self, one: Open) -> None:
        """The session shows both its own changes and those of others."""
        tip = self.commits[self.tip].state
        if self.tip != one.began:
            state = self._shown(one, list(merged(one.side, tip)), "a rebase")
            shift_edges(one.log, one.side.base, state)
            self._adopt(one, state)

    def _shown(self, one: Open, expected: list[dict[str, Node]], what: str) -> State:
        """The state that a session shows, among the possible ones; for a serializable one, in which looking counts as a read, the first."""
        assert expected, f"{what} happened in spite of a conflict"
        if one.serializable:
            return expected[0]
        by_deviation = {difference(read(one.session.root), state): state for state in expected}
        assert None in by_deviation, f"{what} shows something else: {next(iter(by_deviation))}"
        return by_deviation[None]

    def _adopt(self, one: Open, state: State) -> None:
        one.began, one.side = self.tip, one.side._replace(base=self.commits[self.tip].state, state=state)
        one.forks.clear()  # they belong to the former session

    def _check_conflict(self, one: Open, error: ConflictError) -> None:
        """A conflict is reported only if both sides touched the same part; and then nothing was changed."""
        theirs = self._since(one.began)
        assert one.serializable or error.conflicts, str(error)
        if theirs is not None and not one.serializable:
            ours = without_idle(one.log, one.side.base, one.side.state)
            assert may_conflict(ours, theirs), f"a conflict where nothing meets: {error}"
        self._compare(one)

    def _since(self, began: str) -> Log | None:
        """The changes committed after a snapshot; None if the tip does not descend from it."""
        log, at = Log(), self.tip
        while at != began:
            commit = self.commits[at]
            log.add(commit.log)
            if commit.parent is None:
                return None
            at = commit.parent
        return log

    def _solve(self, one: Open, random: Random, token: str) -> None:
        """A rebase with a solver: nodes decided for a side are as on this side, and nodes without a conflict have the changes of both."""
        try:
            if not self._guarded(one.session.rebase):
                return
        except ConflictError as error:
            spared = {str(conflict.path).lstrip("/") for conflict in error.conflicts}  # type: ignore[attr-defined]
        else:
            self._rebased(one)
            return
        name = random.choice(("ours", "theirs", "either"))
        solver = (lambda _: random.choice(("ours", "theirs"))) if name == "either" else name
        self.trace.append(f"  answers {name!r} to conflicts at {sorted(spared)}")
        try:
            if not self._guarded(lambda: one.session.rebase(solver)):  # type: ignore[arg-type]
                return
        except ConflictError:
            self._compare(one)
            return
        self.guessed = True
        found, tip = read(one.session.root), self.commits[self.tip].state
        spared = paths_of(spared, one.side.base, one.side.state, tip)
        gone = [*lost(one.side.base, one.side.state, tip, found, set() if name == "ours" else spared)]
        gone += lost(one.side.base, tip, one.side.state, found, set() if name == "theirs" else spared)
        assert not gone, f"{name!r} was answered, and {gone[0]}"
        self._adopt(one, state_of(found, tip, one.side.state, first=name))

    def _commit(self, one: Open, random: Random, token: str) -> None:
        self.made += 1
        one.tokens.append(f"{self.made}")
        rebase = random.choice((None, "disjoint", "disjoint"))
        done: list[str] = []
        one.unsure = True
        try:
            if not self._guarded(
                lambda: done.append(
                    one.session.commit("c", metadata={"token": one.tokens[-1]}, rebase=rebase, allow_empty=True)
                )
            ):
                return
        except ConflictError as error:
            one.unsure = False
            assert one.began != self.tip or one.tokens, "nobody else was there"
            if rebase is None:
                self._compare(one)
            else:
                self._check_conflict(one, error)
            return
        except CommitUnknownError:
            assert self.store.fired
            return
        one.unsure = False
        self._note(one, done[0])
        self._compare(one)
        if one.forks:
            one.forks.clear()

    def _note(self, one: Open, identity: str) -> None:
        """After a successful commit: its content, and the new base of the session."""
        parent = self.commits[self.tip].state
        history = list(self.observer.history())
        assert history[0].id == identity, "the commit is the tip"
        assert history[0].parent == self.tip, "behind the tip before it"
        assert history[0].metadata["token"] in one.tokens
        found = read(self.observer.readonly_session(snapshot=identity).root)
        expected = [one.side.state] if one.began == self.tip else list(merged(one.side, parent))
        assert expected, f"a commit in spite of a conflict: {found}"
        by_deviation = {difference(found, state): state for state in expected}
        assert None in by_deviation, f"a commit holds something else: {next(iter(by_deviation))}"
        for uid, seen in one.reads.items():
            node = {node.uid: node for node in parent.values()}.get(uid)
            assert node is not None, "a serializable commit rests on an array that is gone"
            assert np.array_equal(node.values[: len(seen)], seen), (
                "a serializable commit rests on values that others changed"
            )  # type: ignore[index]
        state = by_deviation[None]
        shift_edges(one.log, one.side.base, state)
        self.commits[identity] = Commit(self.tip, state, one.log)
        self.tip = identity
        one.began, one.side, one.log, one.reads, one.tokens = identity, Side(state, state), Log(), {}, []

    def _discard(self, one: Open, _: Random, __: str) -> None:
        if self._guarded(one.session.discard):
            one.side, one.log, one.reads, one.forks = Side(one.side.base, one.side.base), Log(), {}, []
            self._compare(one)

    def _reset(self, one: Open, random: Random, _: str) -> None:
        self.tip = random.choice(list(self.commits))
        self.trace.append(f"  to {self.tip}")
        self.repo.reset_branch("main", self.tip)

    def _interrupt(self, _: Open, random: Random, __: str) -> None:
        self.store.arm(random.randrange(8), random.choice(INTERRUPTS), after=random.random() < 0.5)

    def _look(self, one: Open, _: Random, __: str) -> None:
        self._compare(one)
