"""Checks of programs besides their sessions: differences, other branches, tags, snapshots by time, readers, and the files of the repository."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import NamedTuple

import numpy as np

import frazil
from frazil.testing.simulation.hierarchy import State, difference, read
from tests.api.stored_files import check_files
from tests.model.changes import Log
from tests.model.interrupting_store import InterruptingStore


class Commit(NamedTuple):
    parent: str | None
    state: State
    log: Log


class Looking:
    """Steps that change no node. guessed: a solver answered, so that the model cannot identify nodes with certainty; litter: unreferenced chunk files of packs,
    forks and interrupts may be left"""

    def __init__(self, store: InterruptingStore, options: Mapping[str, object]) -> None:
        self.store = store
        self.repo = frazil.Repository.create(store, **options)  # type: ignore[arg-type]
        self.compatible = options["compatible"] is not None
        self.litter = options["chunk_packing"] == "auto" and not self.compatible
        self.guessed = False
        self.tip = ""
        self.commits: dict[str, Commit] = {}
        self.merges: dict[str, list[str]] = {}  # what commits merged
        self.branches: dict[str, str] = {}  # besides main
        self.tags: dict[str, str] = {}
        self.readers: list[tuple[frazil.Session, str]] = []

    def _any(self, random: Random) -> str:
        return random.choice(list(self.commits))

    def _branch(self, _: object, random: Random, __: str) -> None:
        """Creates, resets or deletes another branch."""
        name, at = random.choice("xyz"), self._any(random)
        if name not in self.branches:
            self.repo.create_branch(name, at)
        elif random.random() < 0.3 and not self.compatible:  # the alpha library would continue with a deleted branch
            self.repo.delete_branch(name)
            del self.branches[name]
            return
        else:
            self.repo.reset_branch(name, at, expect=self.branches[name])
        self.branches[name] = at

    def _tag(self, _: object, random: Random, token: str) -> None:
        self.tags[f"t{token}"] = self._any(random)
        self.repo.create_tag(f"t{token}", self.tags[f"t{token}"])

    def _travel(self, _: object, random: Random, __: str) -> None:
        """Opens a snapshot by its time; the reader is kept."""
        identity = self._any(random)
        (commit,) = [commit for commit in self.repo.history(identity) if commit.id == identity]
        reader = self.repo.readonly_session(snapshot=identity, as_of=commit.written_at)
        assert reader.snapshot_id == identity
        self.readers.append((reader, identity))

    def _diff(self, _: object, random: Random, __: str) -> None:
        if self.compatible or self.guessed:
            return
        old, new = self._any(random), self._any(random)
        found, before, after = self.repo.diff(old, new), self.commits[old].state, self.commits[new].state
        was, now = ({node.uid: "/" + path for path, node in state.items()} for state in (before, after))
        assert found.added == tuple(sorted(now[uid] for uid in now.keys() - was.keys()))
        assert found.removed == tuple(sorted(was[uid] for uid in was.keys() - now.keys()))
        both = was.keys() & now.keys()
        assert found.renamed == tuple(sorted((was[uid], now[uid]) for uid in both if was[uid] != now[uid]))
        for uid in both:
            one, other, path = before[was[uid][1:]], after[now[uid][1:]], now[uid]
            assert (path in found.attributes) == (one.attributes != other.attributes), path
            if one.values is not None and other.values is not None:
                assert (path in found.resized) == (one.values.shape != other.values.shape), path
                if path not in found.resized and path not in found.chunks:
                    np.testing.assert_array_equal(one.values, other.values)

    def _check_all(self) -> None:
        """Every snapshot, branch and tag, read with empty caches; the readers opened before; and the files."""
        repo = frazil.Repository.open(self.store.inner)
        for identity, commit in self.commits.items():
            deviation = difference(read(repo.readonly_session(snapshot=identity).root), commit.state)
            assert deviation is None, f"{identity} reads otherwise now: {deviation}"
        for reader, identity in self.readers:
            deviation = difference(read(reader.root), self.commits[identity].state)
            assert deviation is None, f"a reader of {identity} reads otherwise now: {deviation}"
        branches = {"main": self.tip, **self.branches}
        assert {name: repo.lookup(name) for name in repo.branches} == branches
        assert {name: repo.lookup_tag(name) for name in repo.tags} == self.tags
        for tip in branches.values():
            line = [commit.id for commit in repo.history(tip)][:-1]  # without the empty snapshot
            at: str | None = tip
            for identity in line:
                assert identity == at, f"the history of {tip} is {line}"
                at = self.commits[identity].parent
            assert at is None
        check_files(self.store.inner, reached=self.commits.keys())

    def _check_litter(self) -> None:
        """When no session has changes any more, all chunk files belong to snapshots."""
        check_files(self.store.inner, garbage=self.litter, reached=self.commits.keys())
