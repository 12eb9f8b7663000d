"""What a collection or an expiry did: the values that users get, their JSON and their text. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from frazil.base.record import Record
from frazil.base.reports import counted
from frazil.metadata.json_text import Json, known_members


class Collected(Record):
    """What Repository.garbage_collect did, or would have done with dry_run. Counts are by kind: snapshots, attributes, manifests, chunks (files, each of which
    may have many chunks).

    live       objects that branches and tags lead to
    removed    objects that were condemned before and are now removed;  removed_bytes: their bytes
    condemned  objects that were found unreachable now; a later collection removes them;  condemned_bytes: their bytes
    waiting    objects that were condemned before, and have not waited long enough
    leftovers  number of removed files that are no longer needed: lock and temporary files, journals of copies, and files under gc/
    held       branches that got their next number, so that no older commit can arrive any more
    missing    chunk files that branches and tags lead to and that do not exist, and whose loss is accepted"""

    dry_run: bool
    live: Mapping[str, int]
    removed: Mapping[str, int]
    removed_bytes: int
    condemned: Mapping[str, int]
    condemned_bytes: int
    waiting: Mapping[str, int]
    leftovers: int
    held: int
    missing: int

    def to_json(self) -> dict[str, Json]:
        return {name: dict(value) if isinstance(value, Mapping) else value for name, value in self._asdict().items()}

    def __str__(self) -> str:
        rows = [
            ("removed", self.removed, f", {counted(self.removed_bytes, 'byte')}"),
            ("condemned", self.condemned, f", {counted(self.condemned_bytes, 'byte')}"),
            ("waiting", self.waiting, ""),
            ("live", self.live, ""),
        ]
        lines = [f"{name}: {_counts(counts)}{more if any(counts.values()) else ''}" for name, counts, more in rows]
        lines += [f"missing: {counted(self.missing, 'chunk file')}"] if self.missing else []
        lines.append(f"other files removed: {self.leftovers}")
        return "\n".join([*_dry(self.dry_run), *lines])


class Expired(Record):
    """What Repository.expire did, or would have done with dry_run.

    snapshots  ids of snapshots that have expired now, newest first;  left: how many are still reachable from branches and tags
    tags       and branches: names of those that were deleted"""

    dry_run: bool
    snapshots: tuple[str, ...]
    left: int
    tags: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Json]:
        return known_members(self._asdict())

    def __str__(self) -> str:
        lines = [*_dry(self.dry_run), f"expired snapshots: {len(self.snapshots):,}, left: {self.left:,}"]
        lines += [
            f"deleted: {kind} {name}"
            for kind, names in (("tag", self.tags), ("branch", self.branches))
            for name in names
        ]
        return "\n".join(lines)


def _dry(dry_run: bool) -> list[str]:
    """The first line of the text of a dry run, since its other lines are those of a real one."""
    return ["dry run, nothing is changed; this would be:"] if dry_run else []


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(counted(count, kind[:-1]) for kind, count in counts.items() if count) or "nothing"
