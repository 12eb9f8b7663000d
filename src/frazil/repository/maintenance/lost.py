"""The record of lost chunk files, in the folder `lost` of gc/: a repair gave them up, and older snapshots refer to them. Collections are not refused because
of these."""

from __future__ import annotations

from contextlib import suppress

from frazil.errors import FormatError
from frazil.repository.format import RepositoryFormat
from frazil.repository.maintenance.id_columns import NO_IDS, Ids, join, without
from frazil.repository.maintenance.records import RecordFile, list_records, new_record, read_records, write_record


def lost_chunks(files: RepositoryFormat, records: list[RecordFile]) -> Ids:
    """The chunk files that some records name, sorted. Raises FormatError, StoreError."""
    found = read_records(files, [record for record in records if record.folder == "lost"], ["chunks"])
    return join([columns["chunks"] for columns in found])  # type: ignore[misc] # a column of ids


def record_lost(files: RepositoryFormat, chunks: Ids) -> None:
    """Records chunk files, unless they are recorded already. Raises StoreError."""
    known = NO_IDS
    with suppress(FormatError):  # a damaged record stays, and its files are recorded again
        known = lost_chunks(files, list_records(files, "lost"))
    if len(new := without(chunks, known)):
        write_record(files, new_record("lost"), {"chunks": new})
