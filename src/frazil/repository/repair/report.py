"""The options of a repair, and its results: the values that users get, their JSON and their text. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

from frazil.base.record import Record
from frazil.errors import one_line
from frazil.metadata.json_text import Json
from frazil.repository.verification.report import Problem, chunks_text
from frazil.stores.values import Columns

EntryKind: TypeAlias = Literal["chunks", "attributes", "node", "branch", "history"]

REPAIR: Final = "repair"  # the metadata of a commit that repairs a snapshot
_TITLES: Final = {"commits": "commit", "created": "new branch", "moved": "went back to"}


class Consents(Record):
    """What a user allows a repair to do, besides changes that keep all values. See Repository.repair."""

    older: bool = False
    accept_loss: bool = False
    tips: bool = False
    history: bool = False


class Entry(Record):
    """Something that was repaired, or that is lost.

    kind      "chunks": references of an array; "attributes", "node"; "branch": what it points to; "history": where it ends
    text      what was done, or what is lost
    ref       "branch main" or "tag v1";  path: of the node, or ""
    snapshot  the id of the snapshot from which it was restored, or ""
    chunks    int64[n, d]: coordinates in the array's grid of references (the shards of a sharded array); None if they are unknown or do not apply"""

    kind: EntryKind
    text: str
    ref: str
    path: str = ""
    snapshot: str = ""
    chunks: Columns | None = None

    def to_json(self) -> dict[str, Json]:
        return {**self._asdict(), "chunks": None if self.chunks is None else self.chunks.tolist()}

    def __str__(self) -> str:
        subject = " ".join(part for part in (self.ref, self.path) if part)
        source = f", from snapshot {self.snapshot}" if self.snapshot not in self.text else ""
        chunks = "" if self.chunks is None else f" ({chunks_text(self.chunks)})"
        return one_line(f"{subject}: {self.text}{source}{chunks}")


class Repair(Record):
    """What a repair did, or would do in a dry run.

    commits   the snapshot that was committed, by branch; in a dry run ""
    created   the snapshot that a new branch points to, by its name
    moved     the snapshot that a branch went back to, by its name
    repaired  and lost: by array and chunk. If the loss was accepted, lost parts read as the fill value, or are gone; else they are unchanged
    before    the problems at the beginning
    after     the problems at the end; the same in a dry run, and if nothing was done
    hints     the options that would repair more; not in the JSON"""

    dry_run: bool
    commits: Mapping[str, str]
    created: Mapping[str, str]
    moved: Mapping[str, str]
    repaired: tuple[Entry, ...]
    lost: tuple[Entry, ...]
    before: tuple[Problem, ...]
    after: tuple[Problem, ...]
    hints: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether no problems are left."""
        return not self.after

    def to_json(self) -> dict[str, Json]:
        return {
            "dry_run": self.dry_run,
            "ok": self.ok,
            **{name: dict(getattr(self, name)) for name in _TITLES},
            **{
                name: [entry.to_json() for entry in getattr(self, name)]
                for name in ("repaired", "lost", "before", "after")
            },
        }

    def __str__(self) -> str:
        lines = [f"repaired: {entry}" for entry in self.repaired]
        lines += [f"lost: {entry}" for entry in self.lost]
        for name, title in _TITLES.items():
            lines += [f"{title}: {branch} {snapshot}".rstrip() for branch, snapshot in getattr(self, name).items()]
        if self.dry_run:
            lines.append(f"problems: {len(self.before)}; nothing was written")
        else:
            lines += [f"left: {problem}" for problem in self.after]
            lines.append(f"problems: {len(self.before)} before, {len(self.after)} left")
        return "\n".join([*lines, *(f"hint: {hint}" for hint in self.hints)])


def hints_for(consents: Consents, lost: Sequence[Entry], *, older: bool) -> tuple[str, ...]:
    """The consents that would repair more. older: whether problems of snapshots before the tips are left"""
    hints = []
    if any(entry.kind == "chunks" for entry in lost) and not (consents.older or consents.accept_loss):
        hints.append("older=True gives lost chunks an older value, accept_loss=True the fill value")
    elif any(entry.kind == "chunks" for entry in lost) and not consents.accept_loss:
        hints.append("accept_loss=True gives lost chunks the fill value")
    if older and not consents.history:
        hints.append("history=True ends histories before damaged snapshots")
    return tuple(hints)
