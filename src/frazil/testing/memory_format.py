"""A second format of repositories, for tests of all code that uses the port (repository/format.py): one object that is compared and swapped holds branches,
tags and history.

Snapshots, manifests and chunks are those of the alpha (repository/alpha/), but no array lists two manifests with one chunk, and no snapshot names its
ancestors.
Only this module reads these repositories, and the form of the object may change."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final

from frazil.api.repository import Repository
from frazil.base.record import Record
from frazil.base.retry import WRITES, attempts
from frazil.codecs.registry import DEFAULT_REGISTRY
from frazil.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    FormatError,
    FrazilError,
    InvalidInputError,
    NotFoundError,
    StoreError,
)
from frazil.formats.ids import ObjectId, decode_id, encode_id
from frazil.formats.snapshots import Snapshot
from frazil.repository.alpha.branches import check_commits
from frazil.repository.alpha.format import AlphaSnapshots
from frazil.repository.alpha.new_snapshot import encode_commit, first_snapshot
from frazil.repository.alpha.node_matching import match_nodes
from frazil.repository.alpha.snapshot_flags import next_node
from frazil.repository.format import (
    COMMITTED,
    MAIN,
    TAKEN,
    UNKNOWN,
    Ancestor,
    Answer,
    EncodedCommit,
    NewCommit,
    NodeMatching,
    Referenced,
    Rules,
    Tip,
    UnreadRef,
)
from frazil.repository.maintenance.expired import has_expired, require_history
from frazil.repository.session.transaction import Options
from frazil.runtime import DEFAULT, Runtime
from frazil.stores.locations import Location, resolve
from frazil.stores.values import ABSENT, Changed, Version

_NAME: Final = "state"
_LOST: Final = 4  # lost replies of one update after which it gives up
_RULES: Final = Rules(
    overlays=False,
    extents=False,
    packs=True,
    shared_manifests=True,
    checks=True,
    attribute_files=True,
    bounded_history=None,
    foreign=False,
)


class _State(Record):
    """The object. identity: of the repository; branches: number of changes and snapshot (None: deleted) by name; parents: the parent of each snapshot that was
    ever committed"""

    identity: str
    branches: dict[str, tuple[int, str | None]]
    tags: dict[str, str]
    parents: dict[str, str | None]


class MemoryFormat(AlphaSnapshots):
    """A repository in a store, beneath a prefix. The arguments are those of Files."""

    __slots__ = ()

    # --- the object ----------------------------------------------------------------------------------------------------------------

    def _state(self) -> tuple[_State, Version]:
        found = self.store.get_versioned(self.key(_NAME))
        if found is None or found[1] is None:
            raise NotFoundError(f"there is no repository here: {self.store}", hint="Repository.create makes one")
        try:
            plain = json.loads(found[0])
            branches = {name: (number, snapshot) for name, (number, snapshot) in plain.pop("branches").items()}
            return _State(branches=branches, **plain), found[1]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise FormatError(f"the state of the repository is damaged: {error}", key=self.key(_NAME)) from error

    def _put(self, state: _State, expect: Version) -> Version | Changed:
        plain = {"identity": state.identity, "branches": state.branches, "tags": state.tags, "parents": state.parents}
        return self.store.put(self.key(_NAME), json.dumps(plain).encode(), expect)

    def _update(self, change: Callable[[_State], Answer | None], done: Callable[[_State], Tip | None]) -> Answer:
        """Changes the object, after the changes of other writers.

        change  alters the state, or returns an answer if the change is not allowed
        done    the tip of the change, if the state contains it already: the reply to an earlier try was lost"""
        lost = 0
        for _ in attempts(WRITES):
            try:
                state, version = self._state()
            except StoreError:
                if lost:
                    return Answer(UNKNOWN)
                raise
            if not lost or done(state) is None:  # else it is written once more, as the earlier write may not be synced
                refused = change(state)
                if refused is not None:
                    return refused
            try:
                if not isinstance(self._put(state, version), Changed):
                    return Answer(COMMITTED, done(state))
            except StoreError as error:
                if error.done is False and not lost:
                    raise
                lost += 1
                if error.done or lost == _LOST:
                    return Answer(UNKNOWN)
        raise ConflictError(f"others changed the repository before each of {WRITES.attempts} attempts")

    def create(self) -> Tip:
        """Creates the repository, with an empty branch `main`. Raises AlreadyExistsError, CommitUnknownError, ReadOnlyError, StoreError."""
        check_commits(self)
        first = first_snapshot(compatible=False)
        self.write_new([self.encoded_snapshot(first.metadata.id, first)])
        name = encode_id(first.metadata.id)
        state = _State(os.urandom(8).hex(), {MAIN: (0, name)}, {}, {name: None})
        expect = ABSENT
        for _ in range(_LOST):
            try:
                if not isinstance(self._put(state, expect), Changed):
                    return _tip(state, MAIN)
                present, expect = self._state()
            except StoreError:
                continue
            if present.identity != state.identity:
                raise AlreadyExistsError("a repository already exists", key=self.key(_NAME))
        raise CommitUnknownError("whether the repository was created is not known")

    def require(self) -> None:
        self._state()

    def rules(self, snapshot: Snapshot) -> Rules:
        return _RULES

    def encode_commit(self, commit: NewCommit) -> EncodedCommit:
        return encode_commit(self, commit, _RULES, keep_history=False)

    # --- branches ------------------------------------------------------------------------------------------------------------------

    def check_commits(self, tip: Tip | None = None) -> None:
        check_commits(self)

    def read_tip(self, branch: str) -> Tip | None:
        _check_name(branch)
        state, _ = self._state()
        return _tip(state, branch) if branch in state.branches else None

    def tip(self, branch: str, last: Tip | None = None) -> Tip:
        tip = self.read_tip(branch)
        if tip is None or tip.deleted:
            was = "is no branch of this name" if tip is None else "was a branch of this name, but it is deleted"
            raise NotFoundError(f"there {was}: {branch!r}", key=self.key(_NAME))
        return tip

    def moved(self, tip: Tip) -> Tip | None:
        return _moved_tip(self._state()[0], tip)

    def tip_key(self, tip: Tip) -> str:
        return self.key(_NAME)

    def advance(self, tip: Tip, commit: EncodedCommit) -> Answer:
        self.write_new(commit.new)
        new = encode_id(commit.id)

        def change(state: _State) -> Answer | None:
            now = _tip(state, tip.branch) if tip.branch in state.branches else None
            if now != tip:
                return Answer(TAKEN, now or tip)
            state.branches[tip.branch] = (tip.sequence + 1, new)
            state.parents[new] = encode_id(tip.snapshot)
            return None

        return self._update(change, lambda state: _tip_after(tip, commit.id) if new in state.parents else None)

    def was_committed(self, tip: Tip, snapshots: Collection[ObjectId]) -> Answer:
        state, _ = self._state()
        now = _moved_tip(state, tip)
        happened = [snapshot for snapshot in snapshots if encode_id(snapshot) in state.parents]
        if happened:
            after = _tip_after(tip, happened[0])
            try:  # the object is written again, as the earlier write may not be synced
                return Answer(self._update(lambda _: None, lambda _: after).outcome, after)
            except StoreError:
                return Answer(UNKNOWN, after)
        return Answer(UNKNOWN) if now is None else Answer(TAKEN, now)

    def check_next(self, tip: Tip) -> None:
        pass  # all changes are in one object

    def hold(self, tip: Tip) -> Answer:
        next_tip = tip._replace(sequence=tip.sequence + 1)

        def change(state: _State) -> Answer | None:
            now = _tip(state, tip.branch) if tip.branch in state.branches else None
            if now != tip:
                return Answer(TAKEN, now or tip)
            state.branches[tip.branch] = (next_tip.sequence, encode_id(tip.snapshot))
            return None

        return self._update(change, lambda state: next_tip if state.branches[tip.branch][0] > tip.sequence else None)

    def unread_refs(self) -> list[UnreadRef]:
        return []  # all refs are in one object

    def branches(self) -> list[str]:
        branches = self._state()[0].branches
        return sorted(name for name, (_, snapshot) in branches.items() if snapshot is not None)

    def read_branches(self) -> dict[str, Tip | FrazilError]:
        state = self._state()[0]
        tips = [_tip(state, name) for name in sorted(state.branches)]
        return {tip.branch: tip for tip in tips if tip is not None}

    def create_branch(self, name: str, snapshot: ObjectId) -> Tip:
        _check_name(name)
        self.read_snapshot(snapshot)

        def change(state: _State) -> Answer | None:
            number, present = state.branches.get(name, (-1, None))
            if present is not None:
                raise AlreadyExistsError(f"there is a branch of this name already: {name!r}")
            state.branches[name] = (number + 1, encode_id(snapshot))
            return None

        return self._changed(name, encode_id(snapshot), change)

    def reset_branch(self, name: str, snapshot: ObjectId, expect: ObjectId | None = None) -> Tip:
        self.read_snapshot(snapshot)
        return self._moved_to(name, encode_id(snapshot), expect)

    def former_tips(self, branch: str) -> Iterator[Tip]:
        """The current tip, then the parents of its snapshot: this format keeps no other former tips."""
        state, _ = self._state()
        if branch not in state.branches:
            raise NotFoundError(f"there is no branch of this name: {branch!r}", key=self.key(_NAME))
        tip = _tip(state, branch)
        yield tip
        parent = state.parents.get(state.branches[branch][1] or "")
        while parent is not None:
            yield tip._replace(snapshot=decode_id(parent))
            parent = state.parents.get(parent)

    def restore_branch(self, tip: Tip, snapshot: ObjectId) -> Answer:
        after = _tip_after(tip, snapshot)

        def change(state: _State) -> Answer | None:
            now = _tip(state, tip.branch) if tip.branch in state.branches else None
            if now != tip:
                return Answer(COMMITTED if now == after else TAKEN, now or tip)
            state.branches[tip.branch] = (after.sequence, encode_id(snapshot))
            return None

        return self._update(change, lambda state: after if _tip(state, tip.branch) == after else None)

    def delete_branch(self, name: str, expect: ObjectId | None = None) -> Tip:
        if name == MAIN:
            raise InvalidInputError(f"the branch {MAIN!r} cannot be deleted")
        return self._moved_to(name, None, expect)

    def _moved_to(self, name: str, snapshot: str | None, expect: ObjectId | None) -> Tip:
        self.tip(name)

        def change(state: _State) -> Answer | None:
            number, present = state.branches[name]
            if expect is not None and present != encode_id(expect):
                raise ConflictError(f"the branch {name!r} has changed")
            if present != snapshot:
                state.branches[name] = (number + 1, snapshot)
            return None

        return self._changed(name, snapshot, change)

    def _changed(self, name: str, snapshot: str | None, change: Callable[[_State], Answer | None]) -> Tip:
        """Points a branch to a snapshot (None: deletes it). If a reply is lost and others changed the branch meanwhile, the order of the changes cannot be
        determined."""
        check_commits(self)
        tried = -1  # the number of changes of the branch after this one

        def numbered(state: _State) -> Answer | None:
            nonlocal tried
            refused = change(state)
            tried = state.branches[name][0]
            return refused

        def done(state: _State) -> Tip | None:
            number, present = state.branches.get(name, (-1, None))
            if number > tried or (number == tried and present != snapshot):
                raise CommitUnknownError(f"whether the branch {name!r} was changed is not known")
            return _tip(state, name) if number == tried else None

        answer = self._update(numbered, done)
        if answer.tip is None:
            raise CommitUnknownError(f"whether the branch {name!r} was changed is not known")
        return answer.tip

    # --- tags and history ----------------------------------------------------------------------------------------------------------

    def tags(self) -> list[str]:
        return sorted(self._state()[0].tags)

    def read_tags(self) -> dict[str, ObjectId | FrazilError]:
        return {name: decode_id(found) for name, found in sorted(self._state()[0].tags.items())}

    def tag(self, name: str) -> ObjectId | None:
        _check_name(name)
        found = self._state()[0].tags.get(name)
        return None if found is None else decode_id(found)

    def create_tag(self, name: str, snapshot: ObjectId) -> None:
        _check_name(name)
        self.read_snapshot(snapshot)
        check_commits(self)

        def change(state: _State) -> Answer | None:
            if name in state.tags:
                raise AlreadyExistsError(f"there is a tag of this name already: {name!r}")
            state.tags[name] = encode_id(snapshot)
            return None

        def done(state: _State) -> Tip | None:
            return _tip(state, MAIN) if state.tags.get(name) == encode_id(snapshot) else None

        if self._update(change, done).outcome == UNKNOWN:
            raise CommitUnknownError(f"whether the tag {name!r} was created is not known")

    @property
    def deletes_tags(self) -> bool:
        return True

    def delete_tag(self, name: str, expect: ObjectId | None = None) -> None:
        _check_name(name)
        check_commits(self)

        def change(state: _State) -> Answer | None:
            if name not in state.tags:
                raise NotFoundError(f"there is no tag {name!r}")
            if expect is not None and state.tags[name] != encode_id(expect):
                raise ConflictError(f"the tag {name!r} points to {state.tags[name]}")
            del state.tags[name]
            return None

        if self._update(change, lambda state: None if name in state.tags else _tip(state, MAIN)).outcome == UNKNOWN:
            raise CommitUnknownError(f"whether the tag {name!r} was deleted is not known")

    def referenced(self, snapshots: Sequence[ObjectId]) -> Referenced:
        parents = self._state()[0].parents
        named = [parents.get(encode_id(snapshot)) for snapshot in snapshots]
        ancestors = [[] if parent is None else [decode_id(parent)] for parent in named]
        return super().referenced(snapshots)._replace(ancestors=ancestors)

    def is_changed(self, snapshot: ObjectId) -> bool:
        return False

    def history_fault(self, snapshot: ObjectId) -> str | None:
        self.snapshot(snapshot)  # does not check the snapshots before it
        return None

    def ancestors(self, snapshot: ObjectId) -> Iterator[Ancestor]:
        self.snapshot(snapshot)
        parents = self._state()[0].parents
        at: str | None = encode_id(snapshot)
        while at is not None:
            parent = parents.get(at)
            try:
                info = self.snapshot(decode_id(at)).metadata._replace(id=decode_id(at))
            except NotFoundError as error:
                if has_expired(self, decode_id(at)):
                    return
                raise FormatError(f"the snapshot {at} is missing", key=error.key) from error
            yield Ancestor(info, None if parent is None else decode_id(parent))
            at = parent

    def ancestor_at(self, snapshot: ObjectId, steps: int) -> ObjectId | None:
        if steps < 0:
            return None
        with suppress(NotFoundError, FormatError):
            return next((found.snapshot for found in islice(self.ancestors(snapshot), steps, None)), None)
        return None

    def match_nodes(self, old: ObjectId, new: ObjectId, *, may_be_apart: bool = False) -> NodeMatching:
        own = {found.snapshot for found in self.ancestors(old)}
        common = next((found.snapshot for found in self.ancestors(new) if found.snapshot in own), None)
        if common is None and not may_be_apart:
            require_history(self)
        same_below = None if common is None else next_node(self.snapshot(common))
        return match_nodes(self.snapshot(old).nodes, self.snapshot(new).nodes, same_below)


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not name.isprintable() or name in ("", ".", "..") or set(name) & set("/\\"):
        raise InvalidInputError(f"the name of a branch or tag is {name!r}; it must be printable, without '/' and '\\'")


def _tip(state: _State, branch: str) -> Tip:
    number, snapshot = state.branches[branch]
    return Tip(branch, number, b"" if snapshot is None else decode_id(snapshot), snapshot is None, state.identity)


def _moved_tip(state: _State, tip: Tip) -> Tip | None:
    now = _tip(state, tip.branch) if tip.branch in state.branches else None
    if now is None or now.folder != tip.folder:
        raise ConflictError(f"the branch {tip.branch!r} is not the one that the session began from")
    return None if now == tip else now


def _tip_after(tip: Tip, snapshot: ObjectId) -> Tip:
    return tip._replace(sequence=tip.sequence + 1, snapshot=snapshot)


def create_memory_repository(
    location: Location, *, chunk_packing: str = "auto", runtime: Runtime = DEFAULT, **_: object
) -> Repository:
    """A new repository of this format, with the same API as all others. Other arguments of other formats are ignored."""
    files = _files(location, runtime)
    files.create()
    return Repository(files, Options(packing=chunk_packing == "auto", runtime=runtime), DEFAULT_REGISTRY)


def open_memory_repository(
    location: Location, *, chunk_packing: str = "auto", runtime: Runtime = DEFAULT, **_: object
) -> Repository:
    """An existing repository of this format. Raises NotFoundError. The arguments are those of create_memory_repository."""
    files = _files(location, runtime)
    files.require()
    return Repository(files, Options(packing=chunk_packing == "auto", runtime=runtime), DEFAULT_REGISTRY)


def _files(location: Location, runtime: Runtime) -> MemoryFormat:
    store, prefix = resolve(location)
    return MemoryFormat(store, prefix, cache_bytes=runtime.cache_bytes)
