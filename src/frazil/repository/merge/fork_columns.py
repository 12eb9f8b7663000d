"""Collects the chunks that thousands of equal forks wrote, in columns: for clusters, where each task has its own fork.

A fork carries its base snapshot; the references of its chunks are small. These can be joined in any order, and are put into one fork at the end, which
the parent merges like any other (forks.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from frazil.base.arrays import Octets
from frazil.base.record import Record
from frazil.errors import ConflictError, InvalidInputError
from frazil.repository.manifests.coordinates import sorting_order
from frazil.repository.session.changed_references import NATIVE, PENDING, SHARED, VIRTUAL, Rows
from frazil.repository.session.pending_chunks import store_pending
from frazil.repository.session.read_log import Reads
from frazil.repository.session.transaction import Transaction


class Written(Record):
    """What forks wrote. arrays: the set references, by absolute paths; inline: the bytes of pending chunks, one segment; reads: those of serializable forks"""

    arrays: Mapping[str, Rows] = {}
    inline: bytes = b""
    reads: tuple[Reads, ...] = ()


NOTHING = Written()


def store_chunks(parent: Transaction) -> None:
    """Writes all pending chunks, so that forks do not carry them. Raises ReadOnlyError, StoreError."""
    with parent.lock:
        parent.require_writable()
        parent.state += 1
        store_pending(parent.changes, parent.files, packing=parent.packing, digests=parent.rules.digests)


def copy_fork(fork: Transaction) -> Transaction:
    """A copy of a fork; its parent can merge either, or both. Raises InvalidInputError if it is not a fork."""
    with fork.lock:
        if not fork.forked:
            raise InvalidInputError(f"{fork!r} is not a fork", hint="session.fork() makes one")
        fork.changes.leave_files()
        changes = fork.changes.copy()
        changes.identity = b""  # forks of the copy do not belong to the original
        return fork.fork(changes)


def written(fork: Transaction) -> Written:
    """The chunks that a fork wrote since it began, in arrays that it began with. Large chunks are written to files first. Raises StoreError."""
    store_chunks(fork)
    arrays: dict[str, Rows] = {}
    parts: list[Octets] = []
    filled = 0
    with fork.lock:
        fork.changes.leave_files()
        for change in fork.changes:
            if change.references is None or not len(own := change.references.own()):
                continue
            rows = arrays[change.node.path] = change.references.selected(own)
            if (rows.kinds == VIRTUAL).any():
                raise InvalidInputError(
                    "virtual chunks of forks cannot be gathered", path=change.node.path, hint="merge the fork"
                )
            waiting = np.flatnonzero(rows.kinds == PENDING)
            spans = zip(waiting.tolist(), *(column[waiting].tolist() for column in rows[3:]), strict=True)
            for row, segment, offset, length in spans:
                parts.append(fork.changes.pending.segments[segment][offset : offset + length])
                rows.offsets[row] = filled
                filled += length
            rows.objects[waiting] = 0
        reads = () if fork.reads is None else (fork.reads.reads(fork.base.nodes),)
    return Written(arrays, b"".join(part.tobytes() for part in parts), reads)


def join(parts: Sequence[Written]) -> Written:
    """Joins what several forks wrote. Raises ConflictError if two wrote the same chunk."""
    parts = [part for part in parts if part.arrays or part.reads]
    if len(parts) <= 1:
        return parts[0] if parts else NOTHING
    by_path: dict[str, list[Rows]] = {}
    filled = 0
    for part in parts:
        for path, rows in part.arrays.items():
            moved = rows.offsets + np.where(rows.kinds == PENDING, filled, 0)
            by_path.setdefault(path, []).append(rows._replace(offsets=moved))
        filled += len(part.inline)
    arrays = {path: _joined(path, rows) for path, rows in by_path.items()}
    reads = tuple(reads for part in parts for reads in part.reads)
    return Written(arrays, b"".join(part.inline for part in parts), reads)


def _joined(path: str, parts: Sequence[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    rows = Rows(*map(np.concatenate, zip(*parts, strict=True)))
    in_order = rows.coordinates[sorting_order(rows.coordinates)]
    twice = in_order[1:][(in_order[1:] == in_order[:-1]).all(axis=1)]
    if len(twice):
        hint = "let each write chunks of its own"
        raise ConflictError("two tasks wrote the same chunk", path=path, chunk=tuple(twice[0].tolist()), hint=hint)
    return rows


def put(fork: Transaction, gathered: Written) -> None:
    """Sets what forks wrote that began like this fork. Raises NotFoundError if an array is missing."""
    with fork.lock:
        segment = fork.changes.pending.append(np.frombuffer(gathered.inline, np.uint8)) if gathered.inline else 0
        for path, rows in gathered.arrays.items():
            objects = rows.objects.copy()
            objects[rows.kinds == PENDING] = segment
            objects[rows.kinds == NATIVE] = SHARED
            fork.set_rows(path, rows._replace(objects=objects))
        for reads in gathered.reads:
            if fork.reads is not None:
                fork.reads.add(reads)
