"""What clients were told of their commits, what must then be in the repository, and the check that it is: the invariants of a simulation.

1. The history of a branch is one line, and each commit in it was asked for.
2. A commit that was acknowledged is there exactly once; one that was refused is not; any other is complete or absent.
3. Every snapshot is readable, at any time, and holds what the model says.
4. A serializable commit rests on nothing that others changed before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from frazil.record import Record
from frazil.testing.simulation.hierarchy import Act, State, acted, difference, read
from frazil.testing.simulation.merging import Side, outcomes

if TYPE_CHECKING:
    from frazil.api.repository import Repository
    from frazil.repository.refs.lookup import Commit
    from frazil.testing.simulation.hierarchy import Uid, Values

__all__ = ["Ledger", "Request"]

Status: TypeAlias = Literal["open", "committed", "refused", "unknown"]


class Read(Record):
    """Values that a serializable session saw, of the node `uid`."""

    uid: Uid
    values: Values


class Request:
    """One set of changes that a client wants to commit, however often it tries.

    token   in the properties of the commit
    began   the snapshot that the session began from, and `side` what it did since; of a function that is run on whatever tip there is, None and its `acts`
    status  what the client was told. Once a try had no known outcome, "refused" of a later one does not say that none happened"""

    def __init__(self, token: str, began: str | None = None, side: Side | None = None) -> None:
        self.token, self.began, self.side = token, began, side
        self.acts: list[Act] = []
        self.reads: list[Read] = []
        self.status: Status = "open"
        self.snapshot: str | None = None

    def committed(self, snapshot: str) -> None:
        """The client was told that this snapshot is its commit."""
        self.status, self.snapshot = "committed", snapshot

    def refused(self) -> None:
        """The client was told that nothing was committed."""
        if self.status != "unknown":
            self.status = "refused"

    def unknown(self) -> None:
        """The client was told nothing for certain."""
        self.status = "unknown"

    def saw(self, uid: Uid, values: Values) -> None:
        """The commit rests on these values, which begin at the first element of the node."""
        self.reads.append(Read(uid, values))

    def outcomes(self, parent: State, between: Callable[[str], Sequence[State]]) -> list[State]:
        """What the commit may hold behind a parent. between: the states of the branch after a snapshot, up to the parent"""
        if self.side is not None and self.began is not None:
            return list(outcomes(self.side, between(self.began)))
        state = parent
        for number, act in enumerate(self.acts):
            state = acted(state, act, self.token, number)
        return [state]


class Ledger:
    """All requests of a run, and the states of all snapshots that were looked at.

    repository  sees what is there, and nothing goes wrong with it"""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.requests: dict[str, Request] = {}
        self.states: dict[str, State] = {}
        self.tags: dict[str, str] = {}  # those that were acknowledged

    def begin(self, request: Request) -> Request:
        """Notes a request before anything is sent of it."""
        self.requests[request.token] = request
        return request

    def state(self, snapshot: str) -> State:
        """What a snapshot must hold. It is read, and compared, when it is first asked for, with all before it."""
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
        assert commit.parent is not None, f"{commit.id} of {token} has no parent"
        parent = self.states[commit.parent]
        found = read(self.repository.readonly_session(snapshot=commit.id).root)
        wanted = request.outcomes(parent, lambda began: self._between(began, commit.parent or ""))
        assert wanted, f"{commit.id} of {token} was committed in spite of a conflict; it holds {found}"
        told = [difference(found, state) for state in wanted]
        assert None in told, f"{commit.id} of {token} is not what was asked for: {told[0]}"
        self._check_reads(request, commit, parent)
        self.states[commit.id] = wanted[told.index(None)]

    def _check_reads(self, request: Request, commit: Commit, parent: State) -> None:
        by_uid = {node.uid: node for node in parent.values()}
        for seen in request.reads:
            node = by_uid.get(seen.uid)
            now = None if node is None or node.values is None else node.values[: len(seen.values)]
            assert now is not None and np.array_equal(now, seen.values), (
                f"{commit.id} of {request.token} is serializable, and rests on {seen.values.tolist()}, which is {None if now is None else now.tolist()} before it"
            )

    def _between(self, began: str, parent: str) -> list[State]:
        """The states of the history after a snapshot, up to the parent of a commit."""
        states: list[State] = []
        for commit in self.repository.history(parent):
            if commit.id == began:
                return states[::-1]
            states.append(self.states[commit.id])
        raise AssertionError(f"the branch lost {began}, which is not before {parent}")

    def check(self, repository: Repository) -> None:
        """All of it, as somebody sees it who remembers nothing: `repository`."""
        history = list(repository.history())
        self.state(history[0].id)
        for commit in history:
            told = difference(read(repository.readonly_session(snapshot=commit.id).root), self.states[commit.id])
            assert told is None, f"{commit.id} cannot be read as it was: {told}"
        tokens = [str(commit.metadata.get("token")) for commit in history[:-1]]
        assert len(tokens) == len(set(tokens)), f"a commit is there twice: {tokens}"
        ids = {commit.id for commit in history}
        for token, request in self.requests.items():
            assert request.status != "refused" or token not in tokens, f"{token} was refused, and is there"
            assert request.status != "committed" or request.snapshot in ids, (
                f"{token} was acknowledged, and is not there"
            )
        for name, snapshot in self.tags.items():
            assert repository.lookup_tag(name) == snapshot, f"the tag {name} was acknowledged, and is not there"
