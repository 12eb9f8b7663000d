"""Lists of condemned objects under gc/condemned/: a collection found them unreachable, and a later one removes them. collection.py writes the lists.

A list is removed after its objects. So a process that first reads the lists, and then looks up an object, knows whether it stays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from frazil.repository.format import ObjectKind, RepositoryFormat
from frazil.repository.maintenance.id_columns import NO_IDS, Ids, join
from frazil.repository.maintenance.records import RecordFile, list_records, new_record, read_records, write_record

IdsByKind: TypeAlias = Mapping[ObjectKind, Ids]

# in the order of removal: a snapshot that exists has all that it refers to
KINDS: Final[tuple[ObjectKind, ...]] = ("snapshots", "attributes", "manifests", "chunks")

_HOUR: Final = 3_600_000_000_000  # nanoseconds
WAIT: Final = 24 * _HOUR  # from the list to the removal
SHORTEST_WAIT: Final = _HOUR
CHECK_AFTER: Final = (
    SHORTEST_WAIT // 2
)  # a session of this age checks, before it commits, whether its files were condemned


def no_ids() -> dict[ObjectKind, Ids]:
    return dict.fromkeys(KINDS, NO_IDS)


def condemned_ids(files: RepositoryFormat, records: list[RecordFile] | None = None) -> dict[ObjectKind, Ids]:
    """The sorted ids in all lists, or in some of them. Raises StoreError, FormatError."""
    found = read_records(files, list_records(files, "condemned") if records is None else records, KINDS)
    return {kind: join([columns[kind] for columns in found]) for kind in KINDS}  # type: ignore[misc] # columns of ids


def write_condemned(files: RepositoryFormat, ids: IdsByKind) -> None:
    """Condemns objects; nothing is written if there are none. Raises StoreError."""
    if any(map(len, ids.values())):
        write_record(files, new_record("condemned"), {kind: ids[kind] for kind in KINDS})


def count_by_kind(ids: IdsByKind) -> dict[str, int]:
    """The number of ids by kind."""
    return {kind: len(ids[kind]) for kind in KINDS}
