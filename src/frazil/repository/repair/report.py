"""What a repair is asked for, and what it did: the values that users get, their JSON and their text. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from frazil.record import Record
from frazil.repository.verification.report import Problem, chunks_text, printable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from frazil.metadata.json_text import Json

    Columns = NDArray[np.int64]

__all__ = ["Consents", "Entry", "EntryKind", "Repair"]

EntryKind: TypeAlias = Literal["chunks", "attributes", "node", "branch", "history"]

_TITLES: Final = {"commits": "commit", "created": "new branch", "moved": "went back to"}


class Consents(Record):
    """What a user allows a repair to do, beside what changes no value. See Repository.repair."""

    older: bool = False
    accept_loss: bool = False
    tips: bool = False
    history: bool = False


class Entry(Record):
    """Something that was repaired, or that is lost.

    kind      "chunks": references of an array; "attributes", "node"; "branch": where it points to; "history": where it ends
    text      what was done, or what is lost
    ref       "branch main" or "tag v1";  path: of the node, "" where none is meant
    snapshot  the id of that from which it was restored; "" where none is meant
    chunks    int64[n, d]: coordinates in the array's grid of references (of a sharded array its shards); None where none are meant or nobody knows them"""

    kind: EntryKind
    text: str
    ref: str
    path: str = ""
    snapshot: str = ""
    chunks: Columns | None = None

    def to_json(self) -> dict[str, Json]:
        return {**self._asdict(), "chunks": None if self.chunks is None else self.chunks.tolist()}

    def __str__(self) -> str:
        place = " ".join(part for part in (self.ref, self.path) if part)
        source = f", from snapshot {self.snapshot}" if self.snapshot else ""
        chunks = "" if self.chunks is None else f" ({chunks_text(self.chunks)})"
        return printable(f"{place}: {self.text}{source}{chunks}")


class Repair(Record):
    """What a repair did; of a dry run, what it would do.

    commits   the snapshot that was committed, by branch; in a dry run ""
    created   the snapshot that a new branch points to, by its name
    moved     the snapshot that a branch went back to, by its name
    repaired  and lost: by array and chunk. What is lost reads as fill value, or is gone, where the loss was accepted; else it is as it was
    before    the problems that a verification found at the beginning
    after     those that it found at the end; of a dry run and where nothing was done, the same"""

    dry_run: bool
    commits: Mapping[str, str]
    created: Mapping[str, str]
    moved: Mapping[str, str]
    repaired: tuple[Entry, ...]
    lost: tuple[Entry, ...]
    before: tuple[Problem, ...]
    after: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether there are no problems in the end."""
        return not self.after

    def to_json(self) -> dict[str, Json]:
        return {
            "dry_run": self.dry_run,
            "ok": self.ok,
            **{name: dict(getattr(self, name)) for name in _TITLES},
            **{
                name: [one.to_json() for one in getattr(self, name)] for name in ("repaired", "lost", "before", "after")
            },
        }

    def __str__(self) -> str:
        lines = [f"repaired: {entry}" for entry in self.repaired]
        lines += [f"lost: {entry}" for entry in self.lost]
        for name, title in _TITLES.items():
            lines += [f"{title}: {branch} {snapshot}".rstrip() for branch, snapshot in getattr(self, name).items()]
        if self.dry_run:
            return "\n".join([*lines, f"problems: {len(self.before)}; nothing was written"])
        lines += [f"left: {problem}" for problem in self.after]
        return "\n".join([*lines, f"problems: {len(self.before)} before, {len(self.after)} left"])
