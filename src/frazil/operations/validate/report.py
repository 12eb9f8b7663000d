"""The result of a validation: the value that users get, and its text. Pure."""

from __future__ import annotations

from typing import Literal

from frazil.base.record import Record
from frazil.base.reports import counted, human
from frazil.errors import FrazilError, one_line
from frazil.metadata.json_text import Json, known_members

Kind = Literal["document", "key", "index", "overlap", "chunk", "store", "torn"]


class Problem(Record):
    """A problem.

    kind     "document": a node's is unreadable; "key": it belongs to no node; "index": of a shard; "overlap": of inner chunks in a shard; "chunk": it cannot be
             decoded; "store": a value could not be fetched; "torn": an append to the shard was interrupted
    path     of the node, "" at the root;  key: of the stored object, if there is one
    chunk    coordinates of the chunk (of the inner chunk, or of the shard, depending on the message)"""

    kind: Kind
    message: str
    path: str = ""
    key: str | None = None
    chunk: tuple[int, ...] | None = None

    def to_json(self) -> dict[str, Json]:
        """Members that are not None."""
        return known_members(self._asdict())

    def __str__(self) -> str:
        location = [f"key {self.key}"] if self.key is not None else []
        location += [f"chunk {self.chunk}"] if self.chunk is not None else []
        return one_line(
            f"{self.kind}: /{self.path}: {self.message}" + (f" ({', '.join(location)})" if location else "")
        )


class Validation(Record):
    """The result of frazil.validate.

    location  that was checked;  decoded: whether every chunk was decoded
    groups, arrays  that can be opened;  objects: stored chunks and shards;  indexes: of shards, also of nested ones
    decoded_nbytes  bytes of the elements that were decoded
    problems  the first ones found, sorted by path and key; omitted: the number of others
    unlisted  the store cannot list: keys that belong to no node cannot be found
    repaired  problems that were repaired"""

    location: str
    decoded: bool
    groups: int
    arrays: int
    objects: int
    indexes: int
    decoded_nbytes: int
    problems: tuple[Problem, ...]
    omitted: int = 0
    unlisted: bool = False
    repaired: tuple[Problem, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there are no problems."""
        return not self.problems

    def to_json(self) -> dict[str, Json]:
        """The same, as JSON, with "ok"."""
        fields = {name: value for name, value in self._asdict().items() if name not in ("problems", "repaired")}
        found = {"problems": self.problems, "repaired": self.repaired}
        return {"ok": self.ok, **fields} | {
            name: [problem.to_json() for problem in some] for name, some in found.items()
        }

    def __repr__(self) -> str:
        lines = [f"repaired: {problem}" for problem in self.repaired]
        lines += [str(problem) for problem in self.problems]
        if self.omitted:
            lines.append(f"and {counted(self.omitted, 'more problem')}")
        looked = [
            counted(self.groups, "group"),
            counted(self.arrays, "array"),
            counted(self.objects, "stored object"),
            f"{self.indexes:,} shard ind{'ex' if self.indexes == 1 else 'exes'}",
        ]
        looked.append(f"{human(self.decoded_nbytes)} of elements decoded" if self.decoded else "no chunk decoded")
        total = len(self.problems) + self.omitted
        verdict = "no problems" if not total else counted(total, "problem")
        lines.append(f"{one_line(self.location)}: {verdict}")
        lines.append("  looked at " + ", ".join(looked))
        if self.unlisted:
            lines.append("  the store cannot list: keys that belong to nothing were not looked for")
        return "\n".join(lines)


def problem_of(kind: Kind, error: FrazilError, path: str) -> Problem:
    """The problem that an error reports."""
    return Problem(kind, error.message, path, error.key, error.chunk)
