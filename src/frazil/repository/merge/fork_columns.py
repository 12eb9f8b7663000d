"""Many forks that begin alike, and what they wrote, gathered in columns: for clusters, where each task has a fork of its own and thousands come back.

A fork carries the snapshot that it began from; what it wrote is small and needs no more than where its chunks are. It can be joined in any order, and is put into one
fork at the end, which the parent merges as any other (forks.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from frazil.errors import ConflictError, InvalidInputError
from frazil.record import Record
from frazil.repository.manifests.coordinates import sorted_coordinates
from frazil.repository.session.changed_references import NATIVE, PENDING, SHARED, VIRTUAL, Rows
from frazil.repository.session.pending_chunks import place_pending
from frazil.repository.session.read_log import Reads
from frazil.repository.session.transaction import Transaction

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Octets = NDArray[np.uint8]

__all__ = ["NOTHING", "Written", "WrittenArray", "again", "join", "place", "put", "written"]


class WrittenArray(Record):
    """References that were set in one array, by its absolute path. Bytes of those that have no file (PENDING) lie in the one segment of `Written`."""

    path: str
    rows: Rows


class Written(Record):
    """What forks wrote: arrays in order of their paths, each once; inline: bytes of chunks that are too small for a file; reads: what serializable ones read"""

    arrays: tuple[WrittenArray, ...] = ()
    inline: bytes = b""
    reads: tuple[Reads, ...] = ()


NOTHING = Written()


def place(parent: Transaction) -> None:
    """Gives all chunks that wait in memory their place, so that forks do not carry them. Raises ReadOnlyError, StoreError."""
    with parent.lock:
        parent.require_writable()
        parent.state += 1
        place_pending(parent.changes, parent.files, packing=parent.packing)


def again(fork: Transaction) -> Transaction:
    """Another fork that begins as this one is; its parent takes back either, or both. Raises InvalidInputError for what is no fork."""
    with fork.lock:
        if not fork.forked:
            raise InvalidInputError(f"{fork!r} is no fork", hint="session.fork() makes one")
        fork.changes.leave_files()
        changes = fork.changes.copy()
        changes.identity = b""  # its own forks are not those of the other
        return fork.fork(changes)


def written(fork: Transaction) -> Written:
    """The chunks that a fork wrote since it began, in arrays that it began with. Those that are large enough get a file first. Raises StoreError."""
    place(fork)
    arrays: list[WrittenArray] = []
    parts: list[Octets] = []
    filled = 0
    with fork.lock:
        fork.changes.leave_files()
        for change in sorted(fork.changes, key=lambda change: change.node.path):
            if change.references is None or not len(own := change.references.own()):
                continue
            rows = change.references.selected(own)
            if (rows.kinds == VIRTUAL).any():
                raise InvalidInputError("virtual chunks are not gathered", path=change.node.path, hint="merge the fork")
            waiting = np.flatnonzero(rows.kinds == PENDING)
            for row, segment, offset, length in zip(
                waiting.tolist(), *(column[waiting].tolist() for column in rows[3:]), strict=True
            ):
                parts.append(fork.changes.pending.segments[segment][offset : offset + length])
                rows.offsets[row] = filled
                filled += length
            rows.objects[waiting] = 0
            arrays.append(WrittenArray(change.node.path, rows))
        reads = () if fork.reads is None else (fork.reads.reads(fork.base.nodes),)
    return Written(tuple(arrays), b"".join(part.tobytes() for part in parts), reads)


def join(parts: Sequence[Written]) -> Written:
    """What several wrote, as one. Raises ConflictError where two wrote the same chunk."""
    parts = [part for part in parts if part.arrays or part.reads]
    if len(parts) <= 1:
        return parts[0] if parts else NOTHING
    by_path: dict[str, list[Rows]] = {}
    filled = 0
    for part in parts:
        for path, rows in part.arrays:
            moved = rows.offsets + np.where(rows.kinds == PENDING, filled, 0)
            by_path.setdefault(path, []).append(rows._replace(offsets=moved))
        filled += len(part.inline)
    arrays = tuple(WrittenArray(path, _one_after_another(path, by_path[path])) for path in sorted(by_path))
    reads = tuple(reads for part in parts for reads in part.reads)
    return Written(arrays, b"".join(part.inline for part in parts), reads)


def _one_after_another(path: str, parts: Sequence[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    rows = Rows(*map(np.concatenate, zip(*parts, strict=True)))
    if len(sorted_coordinates(rows.coordinates)) != len(rows.coordinates):
        seen: set[tuple[int, ...]] = set()
        every = map(tuple, rows.coordinates.tolist())
        twice = next(chunk for chunk in every if chunk in seen or seen.add(chunk))  # type: ignore[func-returns-value]
        raise ConflictError(
            "two tasks wrote the same chunk", path=path, chunk=twice, hint="let each write chunks of its own"
        )
    return rows


def put(fork: Transaction, gathered: Written) -> None:
    """Sets what others wrote that began as this fork did. Raises NotFoundError where an array is not there."""
    with fork.lock:
        segment = fork.changes.pending.append(np.frombuffer(gathered.inline, np.uint8)) if gathered.inline else 0
        for path, rows in gathered.arrays:
            objects = rows.objects.copy()
            objects[rows.kinds == PENDING] = segment
            objects[rows.kinds == NATIVE] = SHARED
            fork.set_rows(path, rows._replace(objects=objects))
        for reads in gathered.reads:
            if fork.reads is not None:
                fork.reads.add(reads)
