"""What an inspection found: the values that users get, their JSON and their text. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from frazil.base.record import Record
from frazil.base.reports import columns, counted
from frazil.errors import one_line
from frazil.metadata.json_text import Json, as_json
from frazil.repository.merge.difference import Difference
from frazil.repository.verification.report import Problem

_SHOWN = 10  # commits shown in a text


class Kept(Record):
    """objects: how many;  nbytes: their bytes, as the store lists them"""

    objects: int = 0
    nbytes: int = 0

    def plus(self, other: Kept) -> Kept:
        return Kept(self.objects + other.objects, self.nbytes + other.nbytes)


class ArrayBytes(Record):
    """What the histories keep for one array.

    path     in the last snapshot that has the array (branches in order of their names, then tags); "" for chunks that a live manifest refers to but no array
             has
    chunks   distinct spans of live chunk files;  nbytes: their bytes. A span that several snapshots or arrays refer to counts once, for the first commit
    inline_nbytes   of chunks inside live manifests;  virtual_nbytes: of references to files elsewhere, which are not bytes of the repository"""

    path: str
    chunks: int
    nbytes: int
    inline_nbytes: int
    virtual_nbytes: int


class CommitBytes(Record):
    """What one commit added: its snapshot, and the manifests, attribute files and chunk files that no earlier one refers to.

    written_ns  nanoseconds since 1970 in UTC;  ref: "branch main" or "tag v1", the first that leads to it"""

    snapshot: str
    written_ns: int
    message: str
    ref: str
    added: Kept


class LargeObject(Record):
    """key: of the object in the repository;  live: whether a branch or tag leads to it;  snapshot: the commit that added it, path: of an array that uses it; ""
    if unknown"""

    key: str
    nbytes: int
    live: bool
    snapshot: str
    path: str


class Packing(Record):
    """How chunks are packed in live chunk files.

    files   live chunk files, packs: files with more than one chunk;  chunks: in all of them, packed_chunks: in packs
    used    bytes that references cover, each counted once;  unused: the other bytes of these files"""

    files: int
    packs: int
    chunks: int
    packed_chunks: int
    used: int
    unused: int


class Statistics(Record):
    """What Repository.stats found. Sizes are those of the listing. Live, dead and other objects together are all keys of the repository.

    live      by kind (snapshots, attributes, manifests, chunks): objects that a branch or tag leads to
    dead      by kind: all other objects, for garbage collection. They include the objects of open sessions
    other     refs, lists of collections, and foreign files
    arrays    by path;  commits: oldest first
    largest   of live and dead objects
    problems  what could not be read. If there are problems, some objects in `dead` may be live"""

    live: Mapping[str, Kept]
    dead: Mapping[str, Kept]
    other: Kept
    arrays: Sequence[ArrayBytes]
    commits: Sequence[CommitBytes]
    packing: Packing
    largest: Sequence[LargeObject]
    problems: Sequence[Problem]

    @property
    def total(self) -> Kept:
        """All keys of the repository."""
        total = self.other
        for objects in (*self.live.values(), *self.dead.values()):
            total = total.plus(objects)
        return total

    def to_json(self) -> dict[str, Json]:
        return {
            "total": self.total._asdict(),
            "live": _by_kind(self.live),
            "dead": _by_kind(self.dead),
            "other": self.other._asdict(),
            "arrays": [array._asdict() for array in self.arrays],
            "commits": [{**commit._asdict(), "added": commit.added._asdict()} for commit in self.commits],
            "packing": self.packing._asdict(),
            "largest": [entry._asdict() for entry in self.largest],
            "problems": [problem.to_json() for problem in self.problems],
        }

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [("bytes", "objects", "what")]
        for name, kinds in (("live", self.live), ("dead", self.dead)):
            rows += [(f"{usage.nbytes:,}", f"{usage.objects:,}", f"{name} {kind}") for kind, usage in kinds.items()]
        rows.append((f"{self.other.nbytes:,}", f"{self.other.objects:,}", "refs and other keys"))
        rows.append((f"{self.total.nbytes:,}", f"{self.total.objects:,}", "in all"))
        parts = ["\n".join(columns(rows))]
        packing = self.packing
        parts.append(
            f"{counted(packing.chunks, 'chunk')} in {counted(packing.files, 'live chunk file')}, {packing.packed_chunks:,} of them in {counted(packing.packs, 'pack')}; "
            f"bytes of these files that belong to no chunk: {packing.unused:,}"
        )
        rows = [("bytes", "chunks", "inline", "virtual", "array")]
        for array in sorted(self.arrays, key=lambda array: -array.nbytes):
            inline, virtual = f"{array.inline_nbytes:,}", f"{array.virtual_nbytes:,}"
            rows.append((f"{array.nbytes:,}", f"{array.chunks:,}", inline, virtual, array.path or "(no array)"))
        parts.append("\n".join(columns(rows)))
        rows = [("bytes", "objects", "commit")]
        largest = sorted(self.commits, key=lambda commit: -commit.added.nbytes)
        for commit in largest[:_SHOWN]:
            added = commit.added
            rows.append(
                (f"{added.nbytes:,}", f"{added.objects:,}", f"{commit.snapshot} {commit.message.partition(chr(10))[0]}")
            )
        more = [f"and {counted(len(self.commits) - _SHOWN, 'smaller commit')}"] if len(self.commits) > _SHOWN else []
        parts.append("\n".join([*columns(rows), *more]))
        rows = [("bytes", "", "object")]
        for entry in self.largest:
            location = f"{entry.key}{f' of {entry.path}' if entry.path else ''}"
            rows.append((f"{entry.nbytes:,}", "live" if entry.live else "dead", location))
        parts.append("\n".join(columns(rows)))
        if self.problems:
            parts.append("\n".join([*map(str, self.problems), "some objects that are listed as dead may be live"]))
        return "\n\n".join(parts)


class PathUsage(Record):
    """The usage of one path.

    kind     "array" or "group", which has the sums of its descendants; "gone" if the snapshot no longer has the node
    chunks, nbytes   that the snapshot refers to, including inline chunks;  virtual_nbytes: in files elsewhere
    kept_nbytes      of all chunks that histories keep of it, each counted once, including this snapshot's"""

    path: str
    kind: str
    chunks: int
    nbytes: int
    virtual_nbytes: int
    kept_nbytes: int


class ShownCommit(Record):
    """One commit: what it changed compared to its parent, and what it wrote.

    refs     branches and tags that point to it, such as "branch main"
    wrote    by kind: its snapshot, the manifests and attribute files that its parent does not list, and the chunk files that are in these manifests and not in
             those they replaced
    inline   chunks inside these manifests, and their bytes;  changed: None if the parent is unknown or gone"""

    snapshot: str
    parent: str | None
    written_ns: int
    message: str
    metadata: Mapping[str, object]  # JSON values
    refs: tuple[str, ...]
    wrote: Mapping[str, Kept]
    inline: Kept
    changed: Difference | None
    time: str

    def to_json(self) -> dict[str, Json]:
        members = {name: value for name, value in self._asdict().items() if name not in ("changed", "wrote", "inline")}
        changed = None if self.changed is None else self.changed.to_json()
        return {
            **members,
            "metadata": as_json(dict(self.metadata), "metadata"),
            "refs": list(self.refs),
            "wrote": _by_kind(self.wrote),
            "inline": self.inline._asdict(),
            "changed": changed,
        }

    def __str__(self) -> str:
        lines = [one_line(f"commit {self.snapshot}" + (f" ({', '.join(self.refs)})" if self.refs else ""))]
        message = map(one_line, self.message.split("\n"))
        lines += [f"parent {self.parent or 'none'}", f"time   {self.time}", "", *message, ""]
        lines += [one_line(f"{name}: {value!r}") for name, value in self.metadata.items()]
        if self.changed is not None and not self.changed.is_empty:
            lines += ["changed:", *str(self.changed).split("\n")]
        wrote = [
            f"{counted(usage.objects, kind[:-1])} of {counted(usage.nbytes, 'byte')}"
            for kind, usage in self.wrote.items()
        ]
        lines.append(
            f"wrote: {', '.join(wrote)}; {counted(self.inline.objects, 'chunk')} of {counted(self.inline.nbytes, 'byte')} inline"
        )
        return "\n".join(lines)


class ShownObject(Record):
    """One object that is not a snapshot.

    kind      "manifests", "chunks" or "attributes"
    modified_ns   when it was written, in nanoseconds since 1970, by the clock of the store; -1 if the store does not report it
    content   of a manifest: the number of references of each kind, their bytes, and the number of chunk files they refer to
    used_by   what refers to it in the tips of branches and tags, such as ("branch main", "/temp", 12): 12 references"""

    kind: str
    id: str
    nbytes: int
    modified_ns: int
    content: Mapping[str, int]
    used_by: tuple[tuple[str, str, int], ...]

    def to_json(self) -> dict[str, Json]:
        names = ("ref", "path", "references")
        used_by = [dict(zip(names, use, strict=True)) for use in self.used_by]
        return {**self._asdict(), "content": dict(self.content), "used_by": used_by}

    def __str__(self) -> str:
        lines = [f"{self.kind}/{self.id}: {counted(self.nbytes, 'byte')}"]
        lines += [f"{name}: {value:,}" for name, value in self.content.items()]
        lines += [
            one_line(f"used by {ref}, {path}: {counted(count, 'reference')}") for ref, path, count in self.used_by
        ]
        if not self.used_by:
            lines.append("nothing that a branch or tag points to refers to it; older snapshots were not looked at")
        return "\n".join(lines)


def usage_text(found: Iterable[PathUsage]) -> str:
    """A table with a line for each path."""
    rows = [("bytes", "kept", "virtual", "chunks", "path")]
    for usage in found:
        name = usage.path + (" (not there any more)" if usage.kind == "gone" else "")
        rows.append(
            (f"{usage.nbytes:,}", f"{usage.kept_nbytes:,}", f"{usage.virtual_nbytes:,}", f"{usage.chunks:,}", name)
        )
    return "\n".join(columns(rows))


def _by_kind(kinds: Mapping[str, Kept]) -> dict[str, Json]:
    return {kind: usage._asdict() for kind, usage in kinds.items()}
