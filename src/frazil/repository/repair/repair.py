"""A whole repair: it verifies the repository, repairs first the branches, then the tags and the histories, and verifies again.

Each step is one change of a branch. If a repair is interrupted, the next one continues from there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

from frazil.errors import AccessError, ConflictError, FormatError
from frazil.formats.ids import ObjectId, decode_id, encode_id
from frazil.formats.snapshots import Snapshot
from frazil.repository.format import EncodedCommit, RepositoryFormat, Tip
from frazil.repository.maintenance.expired import expired_ids, record_expired
from frazil.repository.maintenance.id_columns import NO_IDS, id_column, id_list
from frazil.repository.maintenance.lost import record_lost
from frazil.repository.maintenance.reachable import Progress
from frazil.repository.maintenance.records import list_records
from frazil.repository.maintenance.tips import lost_text, lost_tips, record_tips
from frazil.repository.repair.branches import (
    branch_name,
    commit_behind,
    is_repaired,
    keeps_damage,
    last_complete,
    make_branch,
    move_back,
    named_alike,
    repairs_tag,
)
from frazil.repository.repair.former_snapshots import FormerSnapshots, former_ids, parent_of
from frazil.repository.repair.histories import History, HistoryEnds
from frazil.repository.repair.lost_tips import LostTips
from frazil.repository.repair.new_nodes import Plan, plan_commit
from frazil.repository.repair.report import Consents, Entry, Repair, hints_for
from frazil.repository.verification.histories import UNREADABLE, ReachedSnapshot, is_first
from frazil.repository.verification.report import Problem
from frazil.repository.verification.verify import Checked, Depth, check, problems_of

Decode: TypeAlias = "Callable[[Sequence[tuple[str, ObjectId]], tuple[Problem, ...]], tuple[Problem, ...]]"
Problems: TypeAlias = "tuple[Problem, ...]"

_TRIES: Final = 4  # attempts for a branch that other sessions commit to


def repair(
    files: RepositoryFormat,
    consents: Consents,
    depth: Depth,
    decode: Decode | None,
    progress: Progress,
    *,
    dry_run: bool,
) -> Repair:
    """Repairs a repository. files: with an empty cache (RepositoryFormat.uncached); decode: adds the chunks of tips that cannot be decoded to problems.

    Raises NotFoundError and FormatError if there is no repository of this format, or a tip has another version of the format; ConflictError if a copy to this
    location is not complete, or if other sessions keep changing a branch; CommitUnknownError, StoreError, ReadOnlyError. Repairs done before an error stay."""
    if not dry_run:
        files.check_commits()
    checked = check(files, progress, depth)
    missing = checked.chunk_files.missing
    _refuse(checked.found.problems)
    before = _decoded(checked, decode)
    _refuse(before)
    run = _Run(files, consents, checked, decode, progress, dry_run=dry_run)
    if before:
        run.refuse_other_versions()
        run.keep_lost_tips()
        run.repair_branches()
        if run.moved:  # a damaged file hid that the branch does not lead to its recorded tip any more
            run.keep_lost_tips()
        run.repair_tags()
        run.repair_branches()  # those that the steps before made
        if consents.history:
            run.end_histories()
    after = before
    if run.writes:
        files = files.uncached()
        checked = check(files, progress, depth)
        accepted: frozenset[ObjectId] = frozenset()
        while consents.history and not checked.contradicted <= accepted:  # histories differ from before
            accepted |= checked.contradicted
            record_expired(files, NO_IDS, id_column(sorted(accepted)))
            checked = check(files, progress, depth)
        missing = checked.chunk_files.missing
        after = _decoded(checked, decode)
    if consents.accept_loss and not dry_run:
        record_lost(files, missing)
    tips = {encode_id(tip) for _, tip in checked.tips}
    older = any(problem.snapshot not in {"", *tips} for problem in after)
    done = run.commits, run.created, run.moved, tuple(run.repaired), tuple(run.lost)
    return Repair(dry_run, *done, before, after, hints_for(consents, run.lost, older=older))


def _decoded(checked: Checked, decode: Decode | None) -> Problems:
    return checked.found.problems if decode is None else decode(checked.tips, checked.found.problems)


def _refuse(problems: Sequence[Problem]) -> None:
    """Refuses copies that are not complete, and files that are there, but cannot be read: they may be intact."""
    for problem in problems:
        if problem.kind == "copy":
            raise ConflictError(
                problem.text, key=problem.key, hint="let the copy finish, or run it again, which continues it"
            )
        if problem.kind == "access":
            hint = "make the file readable; if the disk lost it, move it away and restore it from a copy, or repair without it"
            raise AccessError(problem.text, key=problem.key, done=False, hint=hint)


class _Run:
    """One repair, and what it did so far. writes: whether it wrote anything"""

    def __init__(
        self,
        files: RepositoryFormat,
        consents: Consents,
        checked: Checked,
        decode: Decode | None,
        progress: Progress,
        *,
        dry_run: bool,
    ) -> None:
        self._files, self._consents, self._decode, self._progress = files, consents, decode, progress
        self._dry_run = dry_run
        self._chunk_files = checked.chunk_files
        self._wrong_lists, self._contradicted = checked.wrong_lists, checked.contradicted
        self._lost_tips = LostTips(files, checked.found.orphan_ids["snapshots"], checked.chunk_files, progress)
        self.commits: dict[str, str] = {}
        self.created: dict[str, str] = {}
        self.moved: dict[str, str] = {}
        self.repaired: list[Entry] = []
        self.lost: list[Entry] = []
        self.writes = False
        self._examined: set[str] = set()  # branches
        self._of_tags: set[str] = set()  # new branches at the repaired states of tags, whose losses are reported
        self._kept: list[Tip] = []  # lost tips that are in the report
        # in a dry run: where branches would be, and the snapshots that commits would follow; of tags, on new branches
        self._planned: dict[str, Tip] = {}
        self._followed: dict[str, ObjectId] = {}
        self._sound: set[ObjectId] = set()  # snapshots that were repaired or have no problems
        self._repairs: dict[
            ObjectId, ObjectId
        ] = {}  # of tips of branches: the commit that repairs each; empty in a dry run
        self._complete: dict[tuple[Tip, bool], ObjectId | None] = {}  # the last complete snapshots before tips
        self._mended: set[ObjectId] = set()  # snapshots whose ancestors the commit after them lists

    # --- existing state

    def refuse_other_versions(self) -> None:
        """Refuses a repository that also has another version of the format: what looks like damage may be that version. Raises FormatError."""
        for name in self._files.branches():
            tip = self._tip(name)
            if tip is not None and tip.snapshot:
                self._refuse_other_version(tip.snapshot)
        for name in self._files.tags():
            snapshot = self._tagged(name)
            if snapshot is not None:
                self._refuse_other_version(snapshot)

    def _refuse_other_version(self, snapshot: ObjectId) -> None:
        try:
            self._files.snapshot(snapshot)
        except FormatError as error:
            if error.other_version:
                raise
        except UNREADABLE:
            pass

    def _tip(self, branch: str) -> Tip | None:
        """The tip of a branch; without a snapshot if that cannot be read; None if none of its files can be found."""
        if branch in self._planned:
            return self._planned[branch]
        with suppress(*UNREADABLE):
            return next(iter(self._files.former_tips(branch)), None)
        return None

    def _tagged(self, tag: str) -> ObjectId | None:
        try:
            return self._files.tag(tag)
        except UNREADABLE:
            return None

    def _snapshot(self, file: ObjectId) -> Snapshot | None:
        """A snapshot; None if it cannot be read."""
        try:
            return self._files.snapshot(file)
        except UNREADABLE:
            return None

    def _problems(self, ref: str, snapshot: ObjectId) -> Problems:
        problems = problems_of(
            self._files,
            ReachedSnapshot(snapshot, ref, is_first(self._files, snapshot)),
            self._chunk_files,
            self._progress,
        )
        if snapshot in self._wrong_lists:
            problems = (*problems, self._wrong_lists[snapshot]._replace(ref=ref))
        return problems if self._decode is None else self._decode([(ref, snapshot)], problems)

    # --- branches

    def keep_lost_tips(self) -> None:
        """Keeps the snapshots of lost branch files on new branches; the present tips are recorded in their place."""
        with suppress(*UNREADABLE):  # reported: the record, or the newest file of a branch
            tips = lost_tips(self._files, self._planned)
            unread = [tip for tip in tips if self._snapshot(tip.snapshot) is None]
            new = [tip for tip in tips if tip not in self._kept]
            self._kept += new
            self.lost += [
                Entry("branch", f"{lost_text(tip)}, which cannot be read", f"branch {tip.branch}")
                for tip in new
                if tip in unread
            ]
            for tip in [tip for tip in new if tip not in unread]:
                name = self._make_branch(branch_name(tip.branch, "found"), tip.snapshot)
                text = (
                    f"{lost_text(tip)}. The branch {name} begins there; if this is the loss, reset {tip.branch} to it"
                )
                self.repaired.append(Entry("branch", text, f"branch {tip.branch}", "", encode_id(tip.snapshot)))
            if tips and not self._dry_run:
                self.writes = True
                record_tips(self._files, () if self._consents.accept_loss else unread)

    def repair_branches(self) -> None:
        """Repairs the branches that no earlier call has repaired."""
        for name in sorted({*self._files.branches(), *self._planned}):
            if name in self._examined:
                continue
            self._examined.add(name)
            for _ in range(_TRIES):
                tip = self._tip(name)
                if tip is None:
                    self.lost.append(Entry("branch", "its files are not there, or cannot be listed", f"branch {name}"))
                if tip is None or tip.deleted or self._repair_branch(name, tip):
                    break
            else:
                raise ConflictError(
                    f"others committed to the branch {name!r} during each of {_TRIES} repairs of it",
                    hint="repair again when no process commits",
                )
            self._progress("branches repaired", 1)

    def _repair_branch(self, name: str, tip: Tip) -> bool:
        """Repairs one branch. Returns False if it has moved meanwhile."""
        ref = f"branch {name}"
        snapshot = self._snapshot(tip.snapshot) if tip.snapshot else None
        problems = self._problems(ref, tip.snapshot) if snapshot is not None else ()
        if snapshot is not None and not problems:
            self._sound.add(tip.snapshot)
            return True
        if snapshot is None or any(problem.kind == "snapshot" for problem in problems):
            changed = snapshot is not None and self._files.is_changed(tip.snapshot)
            if not (changed and keeps_damage(self._files, tip)):
                self._replace_tip(name, tip, whole=changed)
            return True
        plan = self._plan(ref, name, tip.snapshot, snapshot, problems)
        if self._goes_back(plan, tip):
            if not keeps_damage(self._files, tip):
                self._replace_tip(name, tip, whole=True)
            return True
        if plan.commit is not None:
            if self._is_blocked(tip):
                return True
            if self._dry_run:
                list_records(self._files)  # which refuses the commit, if it refuses
                self.commits[name], self._repairs[tip.snapshot] = "", b""
                self._followed[name] = tip.snapshot
            else:
                encoded = self._encoded(ref, plan)
                if encoded is None:
                    return True
                if not commit_behind(self._files, tip, encoded, self._chunk_files):
                    return False
                self.writes = True
                self.commits[name] = encode_id(encoded.id)
                self._repairs[tip.snapshot] = encoded.id
                self._sound.add(encoded.id)
        self._sound.add(tip.snapshot)
        if plan.commit is not None or name not in self._of_tags:
            self._record(plan)
        return True

    def _goes_back(self, plan: Plan, tip: Tip) -> bool:
        """Whether a branch goes back, as its tip cannot be repaired without loss: a mix with older data is a state that was never committed."""
        if not self._consents.tips or self._consents.accept_loss:
            return False
        if repairs_tag(self._files, tip):
            return False
        is_mixed = plan.is_older and not self._consents.older
        return bool(plan.lost) or (is_mixed and self._last_complete(tip, whole=True) is not None)

    def _last_complete(self, tip: Tip, *, whole: bool) -> ObjectId | None:
        """The last complete snapshot of a branch before its tip. whole: the snapshot of the tip can be read"""
        if (tip, whole) in self._complete:
            return self._complete[tip, whole]
        ids = former_ids(self._files, tip.branch, tip.snapshot if whole else None)
        older = (file for file in ids if file != tip.snapshot)
        while (file := last_complete(self._files, older, self._chunk_files, self._progress)) is not None:
            found = () if self._decode is None else self._decode([("", file)], ())
            if not any(problem.kind == "decode" and problem.chunks is not None for problem in found):
                break  # chunks that cannot be decoded here may be intact
        self._complete[tip, whole] = file
        return file

    def _plan(self, ref: str, branch: str | None, file: ObjectId, snapshot: Snapshot, problems: Problems) -> Plan:
        former = FormerSnapshots(self._files, former_ids(self._files, branch, file), self._chunk_files)
        parent = parent_of(self._files, file) if any(problem.kind == "history" for problem in problems) else None
        if parent is not None:
            self._mended.add(file)
        return plan_commit(
            self._files, ref, file, snapshot, problems, former, self._chunk_files, self._consents, parent
        )  # fmt: skip

    def _encoded(self, ref: str, plan: Plan) -> EncodedCommit | None:
        """Encodes the commit of a plan; None if that needs what is lost, as in formats of other programs, whose commits read all arrays."""
        assert plan.commit is not None
        try:
            return self._files.encode_commit(plan.commit)
        except UNREADABLE as error:
            text = f"nothing can be committed until the loss is accepted: {error.message}"
            self.lost += [*plan.lost, Entry("branch", text, ref)]
            return None

    def _record(self, plan: Plan) -> None:
        self.repaired += plan.repaired
        self.lost += plan.lost

    def _replace_tip(self, name: str, tip: Tip, *, whole: bool) -> None:
        """Replaces the damaged tip of a branch: by a new branch or, if allowed, by moving the branch back. whole: the snapshot of the tip can be read, and
        another branch keeps it"""
        ref = f"branch {name}"
        if not tip.snapshot:
            self._find_tips(name)
        target = self._last_complete(tip, whole=whole)
        if target is None:
            text = "its tip cannot be repaired, and no snapshot before it is complete"
            self.lost.append(Entry("branch", text, ref))
            return
        if not self._consents.tips:
            created = self._make_branch(branch_name(name, "repaired"), target)
            text = f"the branch {created} begins at the last complete snapshot, {encode_id(target)}; tips=True resets {name} itself to it"
            self.repaired.append(Entry("branch", text, ref, "", encode_id(target)))
            return
        if self._is_blocked(tip):
            return
        old_tip = ""
        if whole:
            kept = self._make_branch(branch_name(name, "damaged"), tip.snapshot)
            self._examined.add(kept)  # it stays as it is
            old_tip = f"; its former state is the branch {kept}"
        if self._dry_run:
            list_records(self._files)  # as the pin of the snapshot does
            self._planned[name] = tip._replace(sequence=tip.sequence + 1, snapshot=target)
        else:
            move_back(self._files, tip, target)
            self.writes = True
        self.moved[name] = encode_id(target)
        self._sound.add(target)
        self.repaired.append(
            Entry(
                "branch",
                f"it was reset to the last complete snapshot, {encode_id(target)}{old_tip}",
                ref,
                "",
                encode_id(target),
            )
        )

    def _is_blocked(self, tip: Tip) -> bool:
        """Whether something in the place of the next file of a branch makes it unchangeable. Other branches are repaired nevertheless."""
        try:
            self._files.check_next(tip)
        except UNREADABLE as error:
            text = f"it is not repaired, as nothing can change it: {error.message} ({error.key}); move that away, and repair again"
            self.lost.append(Entry("branch", text, f"branch {tip.branch}"))
            return True
        return False

    def _find_tips(self, name: str) -> None:
        """Keeps, on new branches, what the damaged files of a branch may have named: such a file is the only one that names an acknowledged commit."""
        start = branch_name(name, "found")
        lost, created = self._lost_tips.of(name, named_alike(self._files, start))
        for found in [*created, *(self._make_branch(start, snapshot) for snapshot in lost)]:
            text = f"its newest file is damaged. It may have named the snapshot at which the branch {found} begins; if so, reset {name} to {found}"
            self.lost.append(Entry("branch", text, f"branch {name}"))

    def _make_branch(self, start: str, snapshot: ObjectId) -> str:
        planned = {name: decode_id(at) if at else b"" for name, at in self.created.items()}
        name, is_new = make_branch(self._files, start, snapshot, planned, dry_run=self._dry_run)
        if is_new:
            self.created[name] = encode_id(snapshot) if snapshot else ""
            if self._dry_run:
                list_records(self._files)  # as the pin of the branch does
                self._planned |= {name: Tip(name, 0, snapshot)} if snapshot else {}
            self.writes = not self._dry_run
        return name

    # --- tags

    def repair_tags(self) -> None:
        """Repairs the snapshots of tags on new branches, as tags never change."""
        for name in self._files.tags():
            file = self._tagged(name)
            if file in self._repairs:
                self._name_repair(name, file, self._repairs[file])
            if file in self._sound:
                continue
            ref = f"tag {name}"
            snapshot = None if file is None else self._snapshot(file)
            if file is None or snapshot is None:
                text = "its snapshot cannot be read" if file is not None else "its snapshot is not known"
                self.lost.append(Entry("branch", text, ref))
                continue
            problems = self._problems(ref, file)
            self._sound.add(file)
            if any(problem.kind == "snapshot" for problem in problems):
                self.lost.append(Entry("branch", "its snapshot is damaged as a whole", ref))
                continue
            if not problems or is_repaired(self._files, branch_name(name, "repaired"), file):
                continue
            plan = self._plan(ref, None, file, snapshot, problems)
            if not plan.is_visible:
                continue
            if plan.commit is None or self._branch_of(name, file, plan):
                self._record(plan)

    def _branch_of(self, tag: str, file: ObjectId, plan: Plan) -> bool:
        """Points a new branch to the commit of a plan, which repairs the snapshot of a tag. Returns whether that can be written."""
        encoded = None if self._dry_run else self._encoded(f"tag {tag}", plan)
        if encoded is not None:
            self._files.write_new(encoded.new)
        if encoded is not None or self._dry_run:
            self._name_repair(tag, file, b"" if encoded is None else encoded.id)
        return encoded is not None or self._dry_run

    def _name_repair(self, tag: str, file: ObjectId, commit: ObjectId) -> None:
        """Points a new branch to a commit that repairs the snapshot of a tag, unless it has one. In a dry run there is no commit."""
        usual = branch_name(tag, "repaired")
        if is_repaired(self._files, usual, file):
            return
        name = self._make_branch(usual, commit)
        self._of_tags.add(name)
        if self._dry_run:
            self._followed[name] = file
        if name != usual:
            text = f"its repaired state is the branch {name}: the branch {usual} is another one"
            self.repaired.append(Entry("branch", text, f"tag {tag}"))

    # --- histories

    def end_histories(self) -> None:
        """Ends histories before their damaged or missing snapshots. Tips stay."""
        try:
            expired = set(id_list(expired_ids(self._files)))
        except UNREADABLE as error:
            text = f"histories are not repaired, as no one can say what has expired: restore {error.key or 'its record'} from a copy; {error.message}"
            self.lost.append(Entry("history", text, ""))
            return
        files = self._files.uncached()
        found = HistoryEnds(files, self._chunk_files, self._progress, expired, self._mended if self._dry_run else ())
        for start in self._histories(files):
            found.find(start)
        self.repaired += found.repaired + found.contradictions
        if (found.repaired or self._contradicted) and not self._dry_run:
            record_expired(files, id_column(sorted(found.ends)), id_column(sorted({*found.last, *self._contradicted})))
            self.writes = True

    def _histories(self, files: RepositoryFormat) -> Iterator[History]:
        """The histories of all branches and tags, as they are or, in a dry run, would be now."""
        for name in sorted({*files.branches(), *self.created}):
            ref = f"branch {name}"
            if name in self._followed:
                yield History(ref, self._followed[name], follows=True)
            elif name in self._planned:
                yield History(ref, self._planned[name].snapshot)
            else:
                with suppress(*UNREADABLE):
                    yield History(ref, files.tip(name).snapshot)
        for name in files.tags():
            snapshot = self._tagged(name)
            if snapshot is not None:
                yield History(f"tag {name}", snapshot)
