"""What a verification found: the values that users get, their JSON and their text. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias

from frazil.base.record import Record
from frazil.base.reports import counted
from frazil.errors import AccessError, FrazilError, one_line
from frazil.metadata.json_text import Json
from frazil.stores.values import Columns

Kind: TypeAlias = Literal[
    "ref",
    "expiry",
    "history",
    "snapshot",
    "list",
    "node",
    "attributes",
    "manifest",
    "reference",
    "misplaced",
    "missing",
    "range",
    "digest",
    "virtual",
    "copy",
    "collection",
    "decode",
    "codec",
    "access",
]

_SHOWN: Final = 3  # chunks of a problem in its text


class Subject(Record):
    """Where something was found. ref: "branch main" or "tag v1", the first that leads to it; snapshot: its id as text; path: of the node. "": none"""

    ref: str = ""
    snapshot: str = ""
    path: str = ""


class Problem(Record):
    """Something that is wrong.

    kind      "ref": a branch or tag cannot be read, or its snapshot does not exist; "expiry": a record of expiry cannot be read; "history": an ancestor is
              missing or invalid; "snapshot", "node", "attributes", "manifest": it is missing or invalid; "list": a snapshot does not list a file that its nodes
              refer to; "reference": it is outside of the grid of its array, or where readers do not look; "misplaced": references belong to another array;
              "missing": the chunk file does not exist; "range": it is shorter than the reference; "digest": its bytes are not those that were written;
              "virtual": a file elsewhere is missing, too short, or has changed; "decode": the chunk cannot be read; "codec": it was not checked, as a codec in
              Python failed with an exception of its own; "copy": a copy to this location is not complete; "collection": a file of the garbage collection cannot
              be read; "access": a file exists, but this process cannot read it
    text      what is wrong
    ref       "branch main" or "tag v1": the first that leads to it;  snapshot: the id of the snapshot;  path: of the node. "": none
    key       of the stored object, or None
    chunks    int64[n, d]: the coordinates of the chunks in the array's grid of references (the shards of a sharded array), or None"""

    kind: Kind
    text: str
    ref: str = ""
    snapshot: str = ""
    path: str = ""
    key: str | None = None
    chunks: Columns | None = None

    def to_json(self) -> dict[str, Json]:
        """Members that are not None; chunks as a list of coordinates."""
        members = {name: value for name, value in self._asdict().items() if value is not None}
        return {**members, "chunks": self.chunks.tolist()} if self.chunks is not None else members

    def __str__(self) -> str:
        location = [part for part in (self.ref, self.snapshot and f"snapshot {self.snapshot}", self.path) if part]
        location += [f"key {self.key}"] if self.key is not None else []
        if self.chunks is not None:
            location.append(chunks_text(self.chunks))
        return one_line(f"{self.kind}: {self.text}" + (f" ({'; '.join(location)})" if location else ""))


def chunks_text(chunks: Columns) -> str:
    """int64[n, d] coordinates as one line of text: their number, and the first of them."""
    shown = ", ".join(str(tuple(chunk)) for chunk in chunks[:_SHOWN].tolist())
    return f"{counted(len(chunks), 'chunk')}: {shown}{', ...' if len(chunks) > _SHOWN else ''}"


class Verification(Record):
    """What Repository.verify found.

    refs, snapshots, manifests, attributes   how many were checked
    references   to chunks, of every array in every manifest;  chunks: files that they lead to;  virtual: references to files elsewhere, read only by `decode`
    strays       references that no reader uses, which other programs leave: beyond the grid of an array that shrank, or with another number of indices
    orphans      objects that nothing refers to, by kind: no problem, garbage collection removes them. They include the objects of open sessions
    orphan_ids   the ids of the orphans, sorted; not in the JSON
    decoded      chunks of the tips that were decoded; None if decoding was not requested
    problems     everything that is wrong; empty if the repository is sound"""

    refs: int
    snapshots: int
    manifests: int
    attributes: int
    references: int
    chunks: int
    virtual: int
    strays: int
    orphans: Mapping[str, int]
    orphan_ids: Mapping[str, tuple[str, ...]]
    decoded: int | None
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether there are no problems."""
        return not self.problems

    def to_json(self) -> dict[str, Json]:
        members = {**self._asdict(), "orphans": dict(self.orphans)}
        del members["orphan_ids"]
        return {**members, "ok": self.ok, "problems": [problem.to_json() for problem in self.problems]}

    def __str__(self) -> str:
        numbers = {
            "branches and tags": self.refs,
            "snapshots": self.snapshots,
            "manifests": self.manifests,
            "attribute files": self.attributes,
            "references": self.references,
            "chunk files": self.chunks,
        }
        looked_at = ", ".join([f"{noun} {number:,}" for noun, number in numbers.items()])
        lines = [*map(str, self.problems), f"looked at: {looked_at}"]
        if self.virtual:
            lines.append(
                f"virtual references: {self.virtual}{'' if self.decoded is not None else ', whose files were not contacted'}"
            )
        if self.strays:
            lines.append(f"references that no reader uses: {self.strays}")
        if self.orphans:
            orphans = ", ".join(counted(count, kind[:-1]) for kind, count in self.orphans.items() if count)
            lines.append(f"not needed, for garbage collection: {orphans or 'nothing'}")
            if self.orphans.get("snapshots"):  # nothing else shows it, unless a collection has recorded the tip
                lines.append("if a branch has lost commits, they are among these snapshots, which --orphans lists")
        if self.decoded is not None:
            lines.append(f"decoded: {counted(self.decoded, 'chunk')} of the tips")
        return "\n".join([*lines, f"problems: {len(self.problems)}" if self.problems else "sound"])


class Findings:
    """Problems in the order in which they are found. Each unreadable file is reported once."""

    __slots__ = ("_keys", "problems")

    def __init__(self, problems: Iterable[Problem] = ()) -> None:
        self.problems: list[Problem] = list(problems)
        self._keys = {problem.key for problem in self.problems if problem.chunks is None}

    def add(
        self, kind: Kind, text: str, subject: Subject, key: str | None = None, chunks: Columns | None = None
    ) -> None:
        if chunks is not None:
            chunks = chunks.copy()
            chunks.flags.writeable = False
        self.problems.append(Problem(kind, text, *subject, key, chunks))

    def unreadable(self, kind: Kind, error: FrazilError, subject: Subject, key: str | None = None) -> None:
        """Adds a file that is missing or invalid, if it is not reported yet."""
        key = error.key or key
        if key is None or key not in self._keys:
            self._keys.add(key)
            self.add("access" if isinstance(error, AccessError) else kind, error.message, subject, key)
