"""The work of simulated clients: sessions that are committed, functions that are run, forks, readers, tags, resets; and the errors that faults may cause in
them.

Each client records its requests and their results in the ledger (ledger.py). An error that no fault explains is a defect, and ends the run."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.array.array import Array
from frazil.errors import CommitUnknownError, ConflictError, DataError, InvalidInputError, NotFoundError, StoreError
from frazil.testing.simulation.collectors import WAIT_NS
from frazil.testing.simulation.condemned_refs import Rescuer
from frazil.testing.simulation.hierarchy import Act, act_on, choose, difference, read, shapes
from frazil.testing.simulation.ledger import Ledger, Request, Reset
from frazil.testing.simulation.merged_changes import Side, lost, merged, moved, paths_of, side_between, state_of

if TYPE_CHECKING:
    from frazil.api.repository import Repository
    from frazil.api.session import Session
    from frazil.array.group import Group
    from frazil.repository.merge.conflicts import Conflict
    from frazil.repository.merge.solvers import Answer
    from frazil.testing.simulation.hierarchy import Shapes
    from frazil.testing.simulation.scheduler import Client
    from frazil.testing.simulation.store import World

_INTERRUPTS: Final = (KeyboardInterrupt, SystemExit, MemoryError)
_SIMULATED_ERRORS: Final = (StoreError, CommitUnknownError, *_INTERRUPTS)  # errors that faults may cause
_TRIES: Final = 3


class Program:
    """One client from its start to its end. open: opens the repository again"""

    def __init__(self, world: World, client: Client, ledger: Ledger, open: Callable[[], Repository]) -> None:  # noqa: A002
        self.world, self.client, self.ledger, self.open, self.plan = world, client, ledger, open, world.plan
        self.random = world.random
        self.made = 0
        self.session: tuple[Session, Side] | None = None  # used again after its commit
        self.handles: dict[str, Array] = {}
        self.readers: list[tuple[Session, str]] = []
        self.rescuer = Rescuer(world, ledger)
        self.since = 0  # simulated time when the oldest session began

    def run(self) -> None:
        """Runs its tasks. Raises AssertionError, or any error that no fault explains."""
        repo: Repository | None = None
        every = {
            "work": self._work,
            "run": self._run,
            "look": self._read_tips,
            "tag": self._tag,
            "rest": self._read_and_write,
            "reset": self._reset,
            "rescue": self._rescue,
            "merge": self._merge,
        }
        tasks = [every[task] for task in self.plan.tasks if task in every]
        for _ in range(self.plan.steps):
            if self.session is None:
                self.since = self.world.scheduler.now
            try:
                repo = self.open() if repo is None else repo
                self.random.choice(tasks)(repo)
            except _SIMULATED_ERRORS as error:
                if error is self.client.death:
                    raise
                assert self.plan.faults or self._is_old(), f"an error without a fault: {error!r}"
                self.session = None
            except (NotFoundError, DataError):
                if not self._is_old():
                    raise
                self.session = None

    def _is_old(self) -> bool:
        """Whether a collection may have removed objects that a session of this client needs."""
        return self.ledger.collected and (self.world.drifts or self.world.scheduler.now - self.since >= WAIT_NS)

    def _token(self) -> str:
        self.made += 1
        return f"{self.client.name}.{self.made}"

    # --- a session -----------------------------------------------------------------------------------------------------------------

    def _work(self, repo: Repository) -> None:
        """Makes some changes in a session, and commits it."""
        session, side = self.session or self._begin(repo)
        self.session = None
        began, token = session.snapshot_id, self._token()
        side = self._change(session, side, token)
        if "solve" in self.plan.tasks and self.random.random() < 0.5:
            side = self._solve(session, side)
            began = session.snapshot_id
        elif self.random.random() < 0.15:
            side = self._rebase(session, side)
            began = session.snapshot_id
        if side.state is side.base:
            return
        request = self.ledger.begin(Request(token, began, side))
        if self._commit(session, request) and self.random.random() < 0.5:
            self._continue_session(session)

    def _begin(self, repo: Repository) -> tuple[Session, Side]:
        session = repo.writable_session()
        state = self.ledger.state(session.snapshot_id)
        self.handles = {}
        return session, Side(state, state)

    def _continue_session(self, session: Session) -> None:
        """The session must show what it committed, and is used again."""
        state = self.ledger.state(session.snapshot_id)
        self._compare(session, Side(state, state))
        self.handles.clear()
        self.session = session, Side(state, state)

    def _compare(self, session: Session, side: Side) -> None:
        deviation = difference(read(session.root), side.state)
        assert deviation is None, f"a session of {self.client.name} shows something else than it did: {deviation}"

    def _change(self, session: Session, side: Side, token: str) -> Side:
        """Up to four changes. Some are made in a fork, others by two threads."""
        for number in range(self.random.randrange(1, 5)):
            act = choose(self.random, self.plan.acts, shapes(side.state))
            if act is None:
                continue
            draw = self.random.random()
            if draw < 0.15 and "fork" in self.plan.tasks:
                self._act_in_fork(session, act)
            elif draw < 0.3 and act.name == "write" and "threads" in self.plan.tasks:
                side = self._act_by_two(session, side, act, token, number)
                continue
            else:
                self._act(session.root, act)
            side = side.after(act, token, number)
        return side

    def _act(self, root: Group, act: Act) -> None:
        self.world.scheduler.note(f"{act}")
        if act.name in ("move", "swap", "remove"):
            self.handles.clear()
        act_on(root, act, self.handles)
        if act.name in ("append", "write") and "handles" in self.plan.tasks and act.path not in self.handles:
            self.handles[act.path] = root[act.path]  # type: ignore[assignment] # an array, because it was written

    def _act_in_fork(self, session: Session, act: Act) -> None:
        fork = session.fork()
        self.world.scheduler.note(f"in a fork: {act}")
        act_on(fork.root, act)
        if self.random.random() < 0.5:
            fork = pickle.loads(pickle.dumps(fork))
        session.merge(fork)
        if act.name in ("move", "swap", "remove"):
            self.handles.clear()

    def _act_by_two(self, session: Session, side: Side, act: Act, token: str, number: int) -> Side:
        """Two threads write two halves of a box, often in one chunk."""
        low, high = act.box[0]
        middle = (low + high) // 2
        halves = [
            act._replace(box=((low, middle), *act.box[1:])),
            act._replace(box=((middle, high), *act.box[1:]), value=act.value + 1),
        ]
        root = session.root
        self.world.scheduler.note(f"by two threads: {halves}")
        other = self.world.scheduler.start(self.client, lambda: act_on(root, halves[0]))
        try:
            act_on(root, halves[1])
        finally:
            self.world.scheduler.wait(lambda: other.done)
        if other.error is not None:
            raise other.error
        for at, half in enumerate(halves):
            side = side.after(half, token, number + 4 * at)
        return side

    def _rebase(self, session: Session, side: Side) -> Side:
        """Rebases the session to the tip of the branch, if nothing conflicts."""
        try:
            session.rebase("disjoint")
        except ConflictError:
            self._compare(session, side)
            return side
        return self._rebased(session, side)

    def _rebased(self, session: Session, side: Side) -> Side:
        """The session must show the result of a rebase without conflicts."""
        self.handles.clear()  # others may have moved their arrays
        tip = self.ledger.state(session.snapshot_id)
        if tip is side.base:
            return side
        found = read(session.root)
        by_deviation = {}
        for state in merged(side, tip):
            by_deviation[difference(found, state)] = state
        assert None in by_deviation, f"a rebase of {self.client.name} shows something else: {list(by_deviation)[:1]}"
        return side._replace(base=tip, state=by_deviation[None])

    def _solve(self, session: Session, side: Side) -> Side:
        """Rebases the session to the tip of the branch, and solves conflicts: a conflict that is solved with a side has the values of this side, all else those
        of both sides."""
        name = self.random.choice(("ours", "theirs", "either"))
        answered: dict[str, set[str]] = {"ours": set(), "theirs": set()}

        def solver(conflict: Conflict) -> Answer:
            answer = self.random.choice(("ours", "theirs")) if name == "either" else name
            answered[answer].add(conflict.path.strip("/"))
            return answer  # type: ignore[return-value] # one of the two sides

        try:
            session.rebase(solver)
        except ConflictError:
            self._compare(session, side)
            return side
        if not any(answered.values()):
            return self._rebased(session, side)
        self.world.scheduler.note(f"answered {answered}")
        self.handles.clear()
        tip = self.ledger.state(session.snapshot_id)
        found = read(session.root)
        states = side.base, side.state, tip
        conceded = paths_of(answered["theirs"], *states)
        overruled = paths_of(answered["ours"] | moved(answered["theirs"], side.base, side.state), *states)
        losses = [
            *lost(side.base, side.state, tip, found, conceded),
            *lost(side.base, tip, side.state, found, overruled),
        ]
        assert not losses, f"{name!r} was answered by {self.client.name} to {answered}, and {losses[0]}"
        state = state_of(found, side.state, tip)
        if state is None:
            session.discard()
            return Side(tip, tip)
        return side._replace(base=tip, state=state, resized=side.resized | side.appended)

    def _commit(self, session: Session, request: Request) -> bool:
        """Whether the changes were committed; tries again if that is not known."""
        for _ in range(_TRIES):
            rebase = self.random.choice((None, "disjoint", "disjoint"))
            try:
                snapshot = session.commit("work", metadata={"token": request.token}, rebase=rebase, allow_empty=True)
            except ConflictError:
                if self._solve_conflict(session, request):
                    continue
                request.refused()
                break
            except CommitUnknownError:
                request.unknown()
            except StoreError:
                request.refused()
            except _INTERRUPTS as error:
                request.unknown()
                if error is self.client.death:
                    raise
            else:
                request.committed(snapshot)
                self.ledger.state(snapshot)
                return True
            if not session.has_changes:  # committed: the interrupt came while old files were removed
                break
            self._maybe_compare(session, request)
            if self.random.random() < 0.3:
                break
        session.discard()
        return False

    def _solve_conflict(self, session: Session, request: Request) -> bool:
        """Solves the conflicts of a commit; returns whether there are changes left to commit."""
        side = request.side
        if side is None or "solve" not in self.plan.tasks or request.status != "open" or request.reads:
            return False
        if session.snapshot_id != request.began:  # it was rebased before
            return False
        request.side = self._solve(session, side)
        request.began = session.snapshot_id
        return request.side is not side and request.side.state is not request.side.base

    def _maybe_compare(self, session: Session, request: Request) -> None:
        """After a failed commit the session must still have all its changes."""
        if request.side is not None and session.snapshot_id == request.began and self.random.random() < 0.3:
            self._compare(session, request.side)

    # --- a function ----------------------------------------------------------------------------------------------------------------

    def _run(self, repo: Repository) -> None:
        """Runs a function of the root, which is called again if other clients commit first."""
        request = self.ledger.begin(Request(self._token()))

        def change(root: Group) -> None:
            request.acts = []
            for _ in range(self.random.randrange(1, 4)):
                act = choose(self.random, self.plan.acts, _shapes(root))
                if act is not None:
                    self.world.scheduler.note(f"in run: {act}")
                    act_on(root, act)
                    request.acts.append(act)
            root.attrs["by"] = request.token
            request.acts.append(Act("attribute", "", "by", value=request.token))  # type: ignore[arg-type] # any JSON

        try:
            repo.run(change, message="run", metadata={"token": request.token}, retries=2)
        except (ConflictError, StoreError):
            request.refused()
        except CommitUnknownError:
            request.unknown()
        except BaseException:
            request.unknown()
            raise
        else:
            request.status = "committed"
            request.snapshot = self._find(request)

    def _find(self, request: Request) -> str:
        """The snapshot of a commit whose id is not known."""
        snapshot = self.ledger.find(request.token)
        assert snapshot is not None, f"{request.token} was acknowledged, and is not there"
        return snapshot

    # --- a serializable session ------------------------------------------------------------------------------------------------------

    def _read_and_write(self, repo: Repository) -> None:
        """Reads one array and writes another one, serializable; the read is in the session or in a fork of it."""
        session = repo.writable_session(isolation="serializable")
        began, token = session.snapshot_id, self._token()
        state = self.ledger.state(began)
        arrays = [path for path, node in sorted(state.items()) if node.values is not None and node.values.size]
        if len(arrays) < 2:
            return
        source, target = self.random.sample(arrays, 2)
        reader = session.fork() if "fork_reads" in self.plan.tasks and self.random.random() < 0.5 else session
        read_values = np.asarray(reader.root[source][:1])  # type: ignore[index] # an array
        values = state[source].values
        assert values is not None
        assert np.array_equal(read_values, values[:1]), f"{source} shows {read_values.tolist()}"
        box = tuple((0, 1) for _ in state[target].values.shape)  # type: ignore[union-attr] # an array
        act = Act("write", target, box=box, value=int(read_values.flat[0]) + 1)
        act_on(reader.root, act)
        if reader is not session:
            session.merge(reader)
        request = self.ledger.begin(Request(token, began, Side(state, state).after(act, token, 0)))
        request.saw(state[source].uid, read_values)
        self._commit(session, request)

    # --- readers and tags ------------------------------------------------------------------------------------------------------------

    def _read_tips(self, repo: Repository) -> None:
        """Reads the tip, and sessions that were opened before."""
        session = repo.readonly_session()
        self.readers.append((session, session.snapshot_id))
        session, snapshot = reader = self.random.choice(self.readers)
        try:
            found = read(session.root)
        except (NotFoundError, DataError, StoreError):
            if not self.ledger.may_be_removed(snapshot):
                raise
            self.readers.remove(reader)
            return
        deviation = difference(found, self.ledger.state(snapshot))
        assert deviation is None, f"{self.client.name} reads {snapshot} otherwise: {deviation}"

    def _rescue(self, repo: Repository) -> None:
        self.rescuer.rescue(repo, self._token())

    def _merge(self, repo: Repository) -> None:
        """Merges a snapshot, applies the changes of a commit, or reverts them."""
        ledger, token = self.ledger, self._token()
        line = ledger.find_line(repo.lookup_branch("main"))
        beside = [snapshot for snapshot in ledger.states if snapshot not in line]  # which resets took from the branch
        snapshot = self.random.choice(beside[-3:] or list(ledger.states))
        request = ledger.begin(Request(token, line[0]))
        act = self.random.choice((repo.merge, repo.merge, repo.cherry_pick, repo.revert))
        parent, other = ledger.parents.get(snapshot, snapshot), ledger.states[snapshot]

        def replayed(before: str) -> Side | None:
            if act.__name__ == "revert":
                return side_between(other, ledger.states[parent], token, appends=False)
            began = ledger.common(snapshot, before) if act.__name__ == "merge" else parent
            return None if began is None else side_between(ledger.states[began], other, token, appends=True)

        request.replayed = replayed
        self.world.scheduler.note(f"{act.__name__} of {snapshot}")
        try:
            commit = act(snapshot, metadata={"token": token})
        except (CommitUnknownError, *_INTERRUPTS):
            request.unknown()
            raise
        except (ConflictError, NotFoundError, StoreError, InvalidInputError) as error:
            request.refused()
            self.world.scheduler.note(f"not merged: {error}")
        else:
            ledger.state(commit)
            if ledger.tokens.get(token) == commit:
                request.committed(commit)
            else:
                request.refused()  # there was nothing to do

    def _reset(self, repo: Repository) -> None:
        """Points the branch to another snapshot."""
        expect = repo.lookup_branch("main")
        self.ledger.state(expect)
        reset = Reset(expect, self.random.choice(sorted(self.ledger.states.keys() - {expect})))
        self.ledger.resets.append(reset)
        self.world.scheduler.note(f"reset from {expect} to {reset.target}")
        try:
            repo.reset_branch("main", reset.target, expect=expect)
        except (ConflictError, StoreError):
            reset.status = "refused"
        except NotFoundError:
            reset.status = "refused"
            if not self.ledger.may_be_removed(reset.target):
                raise
        except BaseException:
            reset.status = "unknown"
            raise
        else:
            reset.status = "committed"

    def _tag(self, repo: Repository) -> None:
        """Tags a snapshot."""
        name, snapshot = f"tag-{self._token()}", self.random.choice(sorted(self.ledger.states))
        try:
            repo.create_tag(name, snapshot)
        except (NotFoundError, ConflictError):
            if not self.ledger.may_be_removed(snapshot):
                raise
            return
        self.ledger.tags[name] = snapshot


def _shapes(root: Group) -> Shapes:
    """The nodes of a hierarchy, in the form that `choose` takes."""
    return {"": None} | {path: node.shape if isinstance(node, Array) else None for path, node in root.members(None)}
