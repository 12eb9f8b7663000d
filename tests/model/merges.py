"""Steps of programs that merge any commit into the branch, apply it there, or revert it; and their model.

A commit has its parent and what it merged as parents here, and a node of two sides is the same if it is at the same path."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

import numpy as np

import frazil
from frazil.errors import ConflictError, FrazilError, InvalidInputError
from frazil.testing.simulation.hierarchy import State, act_on, acted, choose, difference, read, shapes
from frazil.testing.simulation.merged_changes import Side, by_path, merged, same_paths, side_between
from tests.model.changes import Log, chunks_of, log_of, may_conflict, shift_edges
from tests.model.inspections import Commit, Looking


class Merging(Looking):
    """Steps of programs."""

    trace: list[str]
    acts: list[str]
    observer: frazil.Repository
    _guarded: Callable[[Callable[[], object]], bool]

    def _ancestors(self, start: str) -> set[str]:
        found, waiting = set[str](), [start]
        while waiting:
            at = waiting.pop()
            if at in self.commits and at not in found:
                found.add(at)
                waiting += [*self.merges.get(at, ()), self.commits[at].parent or ""]
        return found

    def _beside(self, random: Random, token: str) -> str:
        """A commit: often a new one on another branch."""
        for number in range(random.choice((0, 1, 1, 2))):
            name = random.choice(sorted(self.branches) or ["x"])
            if name not in self.branches:
                self.repo.create_branch(name, self._any(random))
            session, log = self.repo.writable_session(name), Log()
            state = self.commits[session.snapshot_id].state
            for each in range(random.choice((1, 1, 2))):
                act = choose(random, self.acts, shapes(state))
                if act is not None:
                    self.trace.append(f"  on {name}: {act}")
                    act_on(session.root, act)
                    after = acted(state, act, f"{token} {number}", each)
                    log.add(log_of(state, act, after))
                    state = after
            parent = session.snapshot_id
            self.branches[name] = session.commit("beside", allow_empty=True)
            self.commits[self.branches[name]] = Commit(parent, state, log)
        return self._any(random) if random.random() < 0.3 else random.choice(list(self.commits)[-2:])

    def _join(self, _: object, random: Random, token: str) -> None:
        """Merges a commit."""
        other, tip = self._beside(random, token), self.tip
        ours, theirs = self._ancestors(other), self._ancestors(tip)
        both = ours & theirs
        newest = [at for at in both if not any(at in self._ancestors(later) for later in both - {at})]
        mark = None if random.random() < 0.3 else {"token": f"m{token}"}
        if len(newest) != 1:
            self._refused(lambda: self.repo.merge(other), "several common ancestors")
        elif newest == [other]:
            assert self.repo.merge(other) == tip, "it is merged already"
        elif newest == [tip] and mark is None:
            if self._guarded(lambda: self.repo.merge(other)) or self.observer.lookup("main") != tip:
                self.tip = other
                assert self.observer.lookup("main") == other
        else:
            side = side_between(*self._states(newest[0], other), token, appends=True)
            logs = [self._log(line - self._ancestors(newest[0])) for line in (ours, theirs)]
            self._replay(lambda: self.repo.merge(other, metadata=mark), side, *logs, of=other)

    def _pick(self, _: object, random: Random, token: str) -> None:
        """Applies a commit."""
        commit = self._beside(random, token)
        parent = self.commits[commit].parent
        if parent is not None:
            side = side_between(*self._states(parent, commit), token, appends=True)
            theirs = self._since_ancestor(parent)
            self._replay(lambda: self.repo.cherry_pick(commit), side, self.commits[commit].log, theirs)

    def _revert(self, _: object, random: Random, token: str) -> None:
        commit = self._any(random)
        parent = self.commits[commit].parent
        if parent is not None:
            side = side_between(*self._states(commit, parent), token, appends=False)
            log = self._log([commit])
            for marks in log.marks.values():  # nothing is an append
                marks |= {"shape"} & {mark.replace("append", "shape") for mark in marks}
            self._replay(lambda: self.repo.revert(commit), side, log, self._since_ancestor(commit))

    def _refused(self, act: Callable[[], object], why: str) -> None:
        failed: list[FrazilError] = []
        try:
            self._guarded(act)
        except (ConflictError, InvalidInputError) as error:
            failed.append(error)
        assert self.store.fired or why in str(failed[0]), why

    def _log(self, commits: Iterable[str]) -> Log:
        log = Log()
        for commit in commits:
            log.add(self.commits[commit].log)
        return log

    def _states(self, *commits: str) -> list[State]:
        return [self.commits[commit].state for commit in commits]

    def _since_ancestor(self, began: str) -> Log | None:
        line = self._ancestors(self.tip)
        return self._log(line - self._ancestors(began)) if began in line else None

    def _replay(self, act: Callable[[], str], side: Side, log: Log, theirs: Log | None, of: str | None = None) -> None:
        """Makes changes in the branch. log, theirs: what it and the branch touched since; None: unknown. of: what is merged, which is recorded"""
        if self.guessed:
            return
        before, tip = self.tip, self.commits[self.tip].state
        self.trace.append(f"  {act.__qualname__.split('.')[1]} on {before}")
        twins = same_paths(side.base, tip)
        try:
            if not self._guarded(act) and self.observer.lookup("main") == before:
                return
        except ConflictError as error:
            self._check_refusal(error, before, theirs is None or bool(twins) or may_conflict(log, theirs))
            return
        commit = next(self.observer.history())
        found = read(self.observer.readonly_session(snapshot=commit.id).root)
        expected = list(merged(by_path(side, tip), tip))
        by_deviation = {difference(found, state): state for state in expected}
        assert None in by_deviation, f"it holds {next(iter(by_deviation), 'something in spite of a conflict')}"
        if commit.id == before:
            assert of is None, "a merge is recorded"
            return
        assert commit.parent == before
        state = by_deviation[None]
        changed = _log_between(tip, state)
        changed.add(log)
        for uid in twins.values():  # the log has other uids
            changed.marks.setdefault(uid, set()).add("gone")
        shift_edges(changed, side.base, state)
        self.commits[commit.id] = Commit(before, state, changed)
        if of is not None:
            self.merges[commit.id] = [of, *map(str, commit.metadata["merged_snapshots"])]  # type: ignore[call-overload]
        self.tip = commit.id

    def _check_refusal(self, error: ConflictError, before: str, meets: bool) -> None:
        assert error.conflicts, str(error)
        assert self.observer.lookup("main") == before
        assert meets, f"a conflict where nothing meets: {error}"


def _log_between(before: State, after: State) -> Log:
    """What differs between two states."""
    log = Log(paths=set(before.keys() ^ after.keys()))
    was, now = ({node.uid: (path, node) for path, node in state.items()} for state in (before, after))
    for uid in was.keys() ^ now.keys():
        log.marks[uid] = {"gone"}
        log.paths.add((was.get(uid) or now[uid])[0])
    for uid in was.keys() & now.keys():
        (path, old), (there, new) = was[uid], now[uid]
        marks = log.marks.setdefault(uid, set())
        if path != there:
            marks.add("moved")
            log.paths |= {path, there}
        if old.attributes != new.attributes:
            marks.add("attributes")
        if old.values is not None and new.values is not None and not np.array_equal(old.values, new.values):
            marks |= {"shape", "append"} if old.values.shape != new.values.shape else set()
            log.chunks[uid] = chunks_of([(0, extent) for extent in new.values.shape], new.chunk)
    return log
