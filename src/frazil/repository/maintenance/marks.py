"""What marking found in immutable objects, kept from one collection to the next: ancestors of snapshots, and the chunk files of manifests.

A value, and its file under gc/marks/. Losing that file only costs time. reachable.py marks objects."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import numpy as np

from frazil.base.arrays import Columns, among, distinct
from frazil.base.record import Record
from frazil.errors import AccessError, FormatError
from frazil.repository.format import RepositoryFormat
from frazil.repository.maintenance.id_columns import NO_IDS, Ids
from frazil.repository.maintenance.records import RecordFile, list_records, new_record, read_records, write_record


class Marks(Record):
    """Known facts about snapshots and manifests.

    snapshots    sorted; parents: of each, even if it has expired; an empty id for the first snapshot
    manifests    all that these snapshots refer to, sorted, and attributes likewise
    read         manifests whose chunk files are known, in any order; the distinct chunk files of read[i] are chunks[starts[i]:starts[i + 1]]"""

    snapshots: Ids
    parents: Ids
    manifests: Ids
    attributes: Ids
    read: Ids
    starts: Columns
    chunks: Ids

    @property
    def fit_together(self) -> bool:
        """Whether the lengths of the columns fit each other, and sorted columns are sorted."""
        starts = self.starts
        if len(self.parents) != len(self.snapshots) or len(starts) != len(self.read) + 1:
            return False
        if starts.item(0) != 0 or starts.item(-1) != len(self.chunks) or (starts[1:] < starts[:-1]).any():
            return False
        return all((column[1:] >= column[:-1]).all() for column in (self.snapshots, self.manifests, self.attributes))

    def equals(self, other: Marks) -> bool:
        """Whether the marks are the same."""
        return all(map(np.array_equal, self, other))

    def with_chunks(self, manifests: list[Ids], chunks: list[Ids]) -> Marks:
        """Adds the chunk files of more manifests, a column for each manifest."""
        counts = np.cumsum([len(part) for part in chunks]) + len(self.chunks)
        return self._replace(
            read=np.concatenate([self.read, *manifests]),
            starts=np.concatenate([self.starts, counts.astype(np.int64)]),
            chunks=np.concatenate([self.chunks, *chunks]),
        )

    def without_snapshots(self) -> Marks:
        """Only what is known of manifests."""
        return self._replace(snapshots=NO_IDS, parents=NO_IDS, manifests=NO_IDS, attributes=NO_IDS)

    def without_chunks(self, lost: Ids) -> Marks:
        """Without the manifests that refer to missing chunk files (sorted): they may be damaged, and restored later. Snapshots say which references they must
        have, so these are not remembered either."""
        if not len(lost):
            return self
        owners = np.repeat(np.arange(len(self.read)), np.diff(self.starts))
        damaged = distinct(owners[among(self.chunks, lost)])
        return self.without_snapshots().only(np.sort(np.delete(self.read, damaged)))

    def chunks_of(self, manifests: Ids) -> Ids:
        """The chunk files of some manifests (sorted): sorted and distinct."""
        known_rows = among(self.read, manifests)
        if known_rows.all():
            return distinct(self.chunks)
        return distinct(self.chunks[np.repeat(known_rows, np.diff(self.starts))])

    def only(self, manifests: Ids) -> Marks:
        """Keeps only these manifests, which are sorted."""
        known_rows = among(self.read, manifests)
        if known_rows.all():
            return self
        counts = np.diff(self.starts)
        starts = np.concatenate([self.starts[:1], np.cumsum(counts[known_rows])])
        return self._replace(
            read=self.read[known_rows], starts=starts, chunks=self.chunks[np.repeat(known_rows, counts)]
        )


_ZERO: Final = np.zeros(1, np.int64)
NO_MARKS: Final = Marks(NO_IDS, NO_IDS, NO_IDS, NO_IDS, NO_IDS, _ZERO, NO_IDS)


def load_marks(files: RepositoryFormat) -> Marks:
    """The marks of an earlier collection, from the largest file; empty if there are none, or they cannot be read. Raises StoreError."""
    for record in sorted(list_records(files, "marks"), key=lambda record: -record.size):
        with suppress(FormatError, AccessError):
            for columns in read_records(files, [record], Marks._fields):
                marks = Marks(**columns)  # type: ignore[arg-type] # columns of ids, and one of int64
                if marks.fit_together:
                    return marks
    return NO_MARKS


def save_marks(files: RepositoryFormat, marks: Marks) -> None:
    """Saves marks, and replaces all earlier ones. Raises StoreError."""
    old: list[RecordFile] = list_records(files, "marks")
    write_record(files, new_record("marks"), marks._asdict())
    files.erase([record.name for record in old])
