"""Repository.merge, cherry_pick and revert: what one branch or commit changed, as a commit of another branch (docs/design/083-merging.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from frazil.api.lookup import branch_hint, lookup
from frazil.api.session import COMMITS, Session, checked_commit
from frazil.base.retry import attempts
from frazil.codecs.registry import Registry
from frazil.errors import ConflictError, InvalidInputError, NotFoundError
from frazil.formats.ids import ObjectId, encode_id
from frazil.repository.format import MAIN, RepositoryFormat, Tip
from frazil.repository.maintenance.pins import pinned
from frazil.repository.merge.common_ancestor import MERGED, common_ancestor, merged_by
from frazil.repository.merge.conflicts import Conflict
from frazil.repository.merge.rebase import rebase
from frazil.repository.merge.replay import replayed
from frazil.repository.merge.solvers import Solver, check_solver, hint_for
from frazil.repository.session.branches import Branches
from frazil.repository.session.session_state import Options
from frazil.repository.session.transaction import Transaction
from frazil.repository.synced_tips import sync_tips

if TYPE_CHECKING:
    from frazil.formats.json_values import Json

_CITED: Final = 60  # characters of the message of a reverted commit


class Merging:
    """The part of Repository that makes the changes of one branch or commit in another branch, in one commit."""

    __slots__ = ()
    _files: RepositoryFormat
    _options: Options
    _registry: Registry
    _branches: Branches

    def merge(
        self,
        name: str,
        into: str = MAIN,
        *,
        message: str | None = None,
        metadata: Mapping[str, object] | None = None,
        solver: Solver | str = "disjoint",
    ) -> str:
        """Makes the changes in a branch that another branch, a tag or a snapshot has, and it has not. Returns the id of the snapshot to which the branch then
        points.

        If the branch has no commit of its own since the common ancestor of both, and neither message nor metadata are given, it moves to the other snapshot.
        Otherwise it gets one commit, whose metadata name what was merged, so that a later merge begins from there. Of rows that both appended to one array, the
        merged ones come last. A node is the one at the same path, even if it was created again.

        name     of a branch or tag, or the id of a snapshot;  into: the branch
        message  of the commit;  metadata: JSON values by name, stored with the commit
        solver   decides conflicts: "disjoint" refuses any; "ours" takes what is merged, "theirs" what the branch has; or a function of a Conflict
        Raises ConflictError, with `conflicts`; then nothing is changed. NotFoundError, InvalidInputError, CommitUnknownError, ReadOnlyError, StoreError."""
        properties = _checked(message, metadata, solver)
        if MERGED in properties:
            raise InvalidInputError(f"{MERGED!r} is what a merge itself stores", hint="give the value another name")

        def merged(tip: Tip) -> str:
            other = lookup(self._files, name)
            ancestor, own = common_ancestor(self._files, other, tip.snapshot)
            if ancestor == other:
                sync_tips(self._files, [tip])
                return encode_id(tip.snapshot)
            if ancestor == tip.snapshot and message is None and metadata is None:
                return self._move(tip, other)
            text = f"merge {name} into {into}" if message is None else message
            record: dict[str, Json] = {**properties, MERGED: [encode_id(snapshot) for snapshot in own]}
            return self._replay(ancestor, other, tip, text, record, solver)

        return self._repeat(into, merged)

    def cherry_pick(
        self,
        name: str,
        onto: str = MAIN,
        *,
        message: str | None = None,
        metadata: Mapping[str, object] | None = None,
        solver: Solver | str = "disjoint",
    ) -> str:
        """Makes the changes of one commit in another branch, as a new commit. Returns its id; the id of the tip if there is nothing to change.

        name     the id of a snapshot, or a branch or tag for its last commit;  onto: the branch
        message  of the new commit; None: that of the commit;  metadata, solver: as for merge
        Raises as merge; InvalidInputError for the first snapshot of the repository."""
        properties = _checked(message, metadata, solver)

        def picked(tip: Tip) -> str:
            commit = lookup(self._files, name)
            parent, text = self._parent_and_message(commit)
            return self._replay(parent, commit, tip, text if message is None else message, properties, solver)

        return self._repeat(onto, picked)

    def revert(
        self,
        name: str,
        branch: str = MAIN,
        *,
        message: str | None = None,
        metadata: Mapping[str, object] | None = None,
        solver: Solver | str = "disjoint",
    ) -> str:
        """Undoes the changes of one commit, in a new commit of a branch. Returns its id; the id of the tip if there is nothing to undo.

        name     the id of a snapshot, or a branch or tag for its last commit
        message  of the new commit;  metadata: as for merge
        solver   if later commits changed the same: "disjoint" refuses, "ours" undoes, "theirs" keeps what is in the branch; or a function of a Conflict
        Raises as merge; InvalidInputError for the first snapshot of the repository."""
        properties = _checked(message, metadata, solver)

        def reverted(tip: Tip) -> str:
            commit = lookup(self._files, name)
            parent, text = self._parent_and_message(commit)
            cited = text if len(text) <= _CITED else text[:_CITED] + "..."
            own = f"revert {encode_id(commit)}: {cited}" if message is None else message
            return self._replay(commit, parent, tip, own, properties, solver, undoes=True)

        return self._repeat(branch, reverted)

    def _tip(self, branch: str) -> Tip:
        try:
            tip = self._files.tip(branch, self._branches.tips.get(branch) if isinstance(branch, str) else None)
        except NotFoundError as error:
            error.hint = error.hint or branch_hint(self._files, branch)
            raise
        self._branches.tips[branch] = tip
        return tip

    def _repeat(self, branch: str, change: Callable[[Tip], str]) -> str:
        """Makes a change on the tip of a branch, again from the beginning if the branch moves meanwhile: others may merge the same."""
        for _ in attempts(COMMITS):
            tip = self._tip(branch)
            try:
                return change(tip)
            except ConflictError as error:
                conflicts = [found for found in error.conflicts if isinstance(found, Conflict)]
                if conflicts:
                    error.hint = hint_for(conflicts, "solver")
                if conflicts or self._tip(branch).snapshot == tip.snapshot:
                    raise
        raise _outrun(branch)

    def _parent_and_message(self, commit: ObjectId) -> tuple[ObjectId, str]:
        found = next(self._files.ancestors(commit))
        if found.parent is None:
            raise InvalidInputError(
                f"{encode_id(commit)} is the first snapshot of the repository, which changed nothing",
                hint="choose a later one",
            )
        return self._files.snapshot_id(found.parent), found.info.message

    def _move(self, tip: Tip, snapshot: ObjectId) -> str:
        """Moves a branch forward. Raises ConflictError if it has moved meanwhile."""
        try:
            with pinned(self._files, snapshot):
                self._branches.sync(self._files.store)
                self._files.reset_branch(tip.branch, snapshot, tip.snapshot)
        finally:
            self._branches.tips.pop(tip.branch, None)
        return encode_id(snapshot)

    def _replay(
        self,
        old: ObjectId,
        new: ObjectId,
        tip: Tip,
        message: str,
        properties: Mapping[str, Json],
        solver: Solver | str,
        *,
        undoes: bool = False,
    ) -> str:
        """Commits what changed from one snapshot to another on the tip of a branch, or behind what others commit meanwhile. Raises ConflictError also if they
        merge something, which may be the same."""
        self._files.check_commits(tip)
        is_merge = MERGED in properties  # recorded even if nothing remains to be changed
        state = self._registry.metadata, self._options, self._branches
        opened: list[Transaction] = []
        with pinned(self._files, new, is_unknown=lambda: any(one.written.is_unknown(one.base_id) for one in opened)):
            transaction = replayed(self._files, old, new, tip, *state, undoes=undoes)
            opened.append(transaction)
            session, base = Session(transaction, self._registry, self._options.runtime), tip.snapshot
            try:
                for _ in attempts(COMMITS):
                    # a node that was created again at its path, as by an earlier merge or revert, is the same node
                    rebase(transaction, solver, session._row_copies(), by_path=True)
                    self._refuse_merges(tip.branch, base, transaction.base_id)
                    base = transaction.base_id
                    if not session.has_changes and not is_merge:
                        sync_tips(self._files, [transaction.tip or tip])
                        return encode_id(base)
                    transaction.needs_check = False  # the pin keeps what the session refers to
                    try:
                        return session.commit(message, metadata=properties, allow_empty=is_merge)
                    except ConflictError:
                        if self._tip(tip.branch).snapshot == base:
                            raise
            finally:
                transaction.end()
        raise _outrun(tip.branch)

    def _refuse_merges(self, branch: str, old: ObjectId, new: ObjectId) -> None:
        """Raises ConflictError if a branch has moved from one snapshot to another by more than commits that merged nothing."""
        for found in self._files.ancestors(new):
            if found.snapshot == old:
                return
            if merged_by(self._files.commit_metadata(found.snapshot)):
                break
        raise ConflictError(f"others merged into {branch!r}, or moved it", hint="try again")


def _outrun(branch: str) -> ConflictError:
    return ConflictError(f"others committed to {branch!r} before each of {COMMITS.attempts} attempts", hint="try again")


def _checked(message: object, metadata: Mapping[str, object] | None, solver: object) -> Mapping[str, Json]:
    """The metadata of a commit. Raises InvalidInputError for wrong arguments."""
    check_solver(solver)
    return checked_commit("" if message is None else message, metadata)
