"""The results of all commits as the clients know them, the required content of the repository, and its check: the invariants of a simulation.

1. The history of a branch is one line, and each commit in it was requested.
2. A commit that was acknowledged exists exactly once, or was behind a snapshot from which the branch was reset; one that was refused does not exist; any other
   is complete or absent. A reset that was acknowledged happened, and one that was refused did not.
3. Every snapshot is readable, at any time, and has the content of the model.
4. A serializable commit depends on nothing that others changed before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, permutations
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from frazil.base.record import Record
from frazil.formats.ids import encode_id
from frazil.testing.simulation.hierarchy import Act, State, acted, difference, read
from frazil.testing.simulation.merged_changes import Side, outcomes, replayed_along

if TYPE_CHECKING:
    from frazil.api.lookup import Commit
    from frazil.api.repository import Repository
    from frazil.base.arrays import Values
    from frazil.testing.simulation.hierarchy import Uid

Status: TypeAlias = Literal["open", "committed", "refused", "unknown"]

_MOST_REBASES: Final = (
    2  # most tips that a session is rebased to before its last one, in a run with resets, and of a merge
)


class Read(Record):
    """Values that a serializable session saw, of the node `uid`."""

    uid: Uid
    values: Values


class Request:
    """One set of changes that a client wants to commit, with all its tries.

    token   in the properties of the commit
    began   the snapshot that the session or the merge began from, and `side` the changes of the session since; None for a function that is run on any tip,
            whose changes are `acts`
    replayed  of a merge, a cherry-pick or a revert: the changes that it makes again behind a snapshot
    status  the result that the client got. After a try with an unknown outcome, "refused" of a later one does not mean that none happened"""

    def __init__(self, token: str, began: str | None = None, side: Side | None = None) -> None:
        self.token, self.began, self.side = token, began, side
        self.acts: list[Act] = []
        self.replayed: Callable[[str], Side | None] | None = None
        self.reads: list[Read] = []
        self.status: Status = "open"
        self.snapshot: str | None = None

    def committed(self, snapshot: str) -> None:
        """The client got this snapshot as its commit."""
        self.status, self.snapshot = "committed", snapshot

    def refused(self) -> None:
        """The client got an error that means that nothing was committed."""
        if self.status != "unknown":
            self.status = "refused"

    def unknown(self) -> None:
        """The client does not know whether anything was committed."""
        self.status = "unknown"

    def saw(self, uid: Uid, values: Values) -> None:
        """The commit depends on these values, which begin at the first element of the node."""
        self.reads.append(Read(uid, values))

    def outcomes(self, parent: State, paths_from: Callable[[str], Iterable[Sequence[State]]]) -> Iterator[State]:
        """The possible contents of the commit behind a parent. paths_from: the tips that a session may have been rebased to since a snapshot, the last of them
        the parent"""
        if self.side is not None and self.began is not None:
            yield from outcomes(self.side, paths_from(self.began))
            return
        state = parent
        for number, act in enumerate(self.acts):
            state = acted(state, act, self.token, number)
        yield state


class Reset:
    """A request to point the branch from one snapshot to another. status: as that of a Request"""

    def __init__(self, expect: str, target: str) -> None:
        self.expect, self.target = expect, target
        self.status: Status = "open"


class Ledger:
    """All requests of a run, and the states of all snapshots that were checked.

    repository  a view of the stored data without any faults"""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.requests: dict[str, Request] = {}
        self.resets: list[Reset] = []
        self.states: dict[str, State] = {}
        self.parents: dict[str, str] = {}
        self.merges: dict[str, list[str]] = {}  # the snapshots that a commit merged
        self.tokens: dict[str, str] = {}  # snapshots by the tokens of their requests
        self.tags: dict[str, str] = {}  # those that were acknowledged
        self.collected = False  # True: objects that no ref leads to may be gone

    def begin(self, request: Request) -> Request:
        """Records a request before it is sent."""
        self.requests[request.token] = request
        return request

    def state(self, snapshot: str) -> State:
        """The required content of a snapshot. At the first call for a snapshot it and all before it are read and compared."""
        if snapshot not in self.states:
            history: list[Commit] = []
            for commit in self.repository.history(snapshot):
                if commit.id in self.states:
                    break
                history.append(commit)
            for commit in reversed(history):
                self._check(commit)
        return self.states[snapshot]

    def _check(self, commit: Commit) -> None:
        token = commit.metadata.get("token")
        request = self.requests.get(str(token))
        assert request is not None, f"{commit.id} was committed, and nobody asked for it: {commit!r}"
        before = self._parent(commit)
        assert before is not None, f"{commit.id} of {token} has no parent"
        parent = self.states[before]
        found = read(self.repository.readonly_session(snapshot=commit.id).root)
        first = f"it was committed in spite of a conflict, and holds {found}"
        for number, state in enumerate(self._outcomes(request, before)):
            deviation = difference(found, state)
            if deviation is None:
                break
            first = first if number else deviation
        else:
            raise AssertionError(f"{commit.id} of {token} is not what was asked for: {first}")
        self._check_reads(request, commit, parent)
        assert token not in self.tokens, f"{token} was committed as {self.tokens[str(token)]}, and as {commit.id}"
        self.states[commit.id], self.parents[commit.id], self.tokens[str(token)] = state, before, commit.id
        self.merges[commit.id] = commit.metadata.get("merged_snapshots", [])  # type: ignore[assignment]

    def _parent(self, commit: Commit) -> str | None:
        """The snapshot before a commit, also if it has expired since."""
        if commit.parent is not None or not self.collected:
            return commit.parent
        parent = next(self.repository._files.ancestors(commit.snapshot)).parent
        return None if parent is None else encode_id(parent)

    def _check_reads(self, request: Request, commit: Commit, parent: State) -> None:
        by_uid = {node.uid: node for node in parent.values()}
        for observed in request.reads:
            node = by_uid.get(observed.uid)
            now = None if node is None or node.values is None else node.values[: len(observed.values)]
            assert now is not None and np.array_equal(now, observed.values), (
                f"{commit.id} of {request.token} is serializable, and rests on {observed.values.tolist()}, which is {None if now is None else now.tolist()} before it"
            )

    def _outcomes(self, request: Request, before: str) -> Iterator[State]:
        """The possible contents of the commit of a request behind the snapshot `before`."""
        if request.replayed is None:
            yield from request.outcomes(self.states[before], lambda began: self._possible_tips(began, before))
            return
        # made behind an earlier tip, and then rebased: changes that this tip had already are not made again
        line = self._history(before)
        tips = line[1:] if request.began not in line else line[1 : line.index(request.began) + 1]
        for count in range(_MOST_REBASES + 1):
            for first, *others in ([*between, before] for between in combinations(reversed(tips), count)):
                side = request.replayed(first)
                if side is not None:
                    yield from replayed_along(side, [self.states[tip] for tip in (first, *others)])

    def _possible_tips(self, began: str, parent: str) -> Iterator[list[State]]:
        """The tips that a session may have been rebased to since a snapshot, the last of them the parent of its commit."""
        if began == parent:
            yield []
        line = self._history(parent)
        if began in line:
            *between, last = [self.states[at] for at in reversed(line[: line.index(began)])] or [self.states[parent]]
            for count in range(len(between) + 1):
                for tips in combinations(between, count):
                    yield [*tips, last]
        resets = self._resets()
        assert resets or began in line, f"the branch lost {began}, which is not before {parent}"
        for count in range(_MOST_REBASES + 1 if resets else 0):
            for tips in permutations(self.states.values(), count):
                yield [*tips, self.states[parent]]

    def common(self, one: str, other: str) -> str | None:
        """The newest snapshot whose changes two snapshots have; None if there are several."""
        both = self._ancestors(one) & self._ancestors(other)
        newest = [at for at in both if not any(at in self._ancestors(later) for later in both - {at})]
        return newest[0] if len(newest) == 1 else None

    def find_line(self, tip: str) -> list[str]:
        """A tip of the branch and the snapshots before it."""
        self.state(tip)
        return self._history(tip)

    def _ancestors(self, snapshot: str) -> set[str]:
        found, waiting = set[str](), [snapshot]
        while waiting:
            at = waiting.pop()
            if at not in found:
                found.add(at)
                waiting += [self.parents.get(at, at), *self.merges.get(at, ())]
        return found

    def _history(self, snapshot: str) -> list[str]:
        """A snapshot and those before it, the newest first."""
        line = [snapshot]
        while line[-1] in self.parents:
            line.append(self.parents[line[-1]])
        return line

    def _resets(self, but: Reset | None = None) -> list[Reset]:
        """The resets that may have happened, except one."""
        return [reset for reset in self.resets if reset.status != "refused" and reset is not but]

    def _dropped(self, resets: Sequence[Reset]) -> set[str]:
        """The snapshots that resets removed from the branch."""
        return {
            snapshot for reset in resets for snapshot in {*self._history(reset.expect)} - {*self._history(reset.target)}
        }

    def find(self, token: str) -> str | None:
        """The snapshot of the commit of a request: on the branch, or recorded there before."""
        self.state(next(self.repository.history()).id)
        return self.tokens.get(token)

    def check(self, repository: Repository) -> None:
        """Checks everything, with a newly opened `repository` without caches."""
        ids = {commit.id for commit in repository.history()}
        self.state(next(repository.history()).id)
        expected = self.reachable(repository) if self.collected else self.states.keys()
        if self.collected:
            ids = {*self._history(next(repository.history()).id)}
        for snapshot, state in self.states.items():
            if snapshot not in expected:
                continue
            deviation = difference(read(repository.readonly_session(snapshot=snapshot).root), state)
            assert deviation is None, f"{snapshot} cannot be read as it was: {deviation}"
        allowed = ids | self._dropped(self._resets())
        for token, request in self.requests.items():
            assert request.status != "refused" or token not in self.tokens, f"{token} was refused, and is there"
            assert request.status != "committed" or request.snapshot in allowed, (
                f"{token} was acknowledged, and is not there"
            )
        for reset in self.resets:
            if reset.status == "committed":
                self._check_reset(reset, ids)
        for name, snapshot in self.tags.items():
            assert repository.lookup_tag(name) == snapshot, f"the tag {name} was acknowledged, and is not there"

    def reachable(self, repository: Repository) -> set[str]:
        """The snapshots that the branch and the tags lead to."""
        tagged = [commit.id for name in repository.tags for commit in repository.history(repository.lookup_tag(name))]
        own = [commit.id for commit in repository.history()]
        assert own == self._history(own[0])[: len(own)], f"the history is {own}"
        return {*own, *tagged}

    def may_be_removed(self, snapshot: str) -> bool:
        """Whether a collection may have removed a snapshot."""
        return self.collected and snapshot not in self.reachable(self.repository)

    def _check_reset(self, reset: Reset, ids: set[str]) -> None:
        """If the branch was reset, its target exists, and the former tip does not, unless other resets explain it."""
        others = self._resets(but=reset)
        assert reset.target in ids | self._dropped(others), f"the branch was reset to {reset.target}, which is gone"
        brought = {snapshot for other in (reset, *others) for snapshot in self._history(other.target)}
        assert reset.expect not in ids or reset.expect in brought, (
            f"the branch was reset from {reset.expect}, and has it"
        )
