"""Lists of condemned objects under gc/condemned/: what a collection found unreachable, and a later one removes. How they come about is in collection.py.

A list is removed after what it names, so that whoever reads the lists first, and then looks whether an object is there, knows whether it stays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from frazil.repository.format import ObjectKind, RepositoryFormat
from frazil.repository.maintenance.id_columns import NO_IDS, Ids, join
from frazil.repository.maintenance.records import RecordFile, list_records, new_record, read_records, write_record

__all__ = ["CHECK_AFTER", "KINDS", "SHORTEST_WAIT", "WAIT", "IdsByKind", "condemned_ids", "no_ids", "write_condemned"]

IdsByKind: TypeAlias = Mapping[ObjectKind, Ids]

# in the order in which objects are removed: a snapshot that is there has all that it refers to
KINDS: Final[tuple[ObjectKind, ...]] = ("snapshots", "attributes", "manifests", "chunks")

_HOUR: Final = 3_600_000_000_000  # nanoseconds
WAIT: Final = 24 * _HOUR  # from the list to the removal
SHORTEST_WAIT: Final = _HOUR
CHECK_AFTER: Final = (
    SHORTEST_WAIT // 2
)  # a session of this age looks, before it commits, whether what it wrote was condemned


def no_ids() -> dict[ObjectKind, Ids]:
    return dict.fromkeys(KINDS, NO_IDS)


def condemned_ids(files: RepositoryFormat, records: list[RecordFile] | None = None) -> dict[ObjectKind, Ids]:
    """The ids in all lists, or in some of them, sorted. Raises StoreError, FormatError."""
    found = read_records(files, list_records(files, "condemned") if records is None else records, KINDS)
    return {kind: join([columns[kind] for columns in found]) for kind in KINDS}  # type: ignore[misc] # columns of ids


def write_condemned(files: RepositoryFormat, ids: IdsByKind) -> None:
    """Condemns objects; nothing is written where there are none. Raises StoreError."""
    if any(map(len, ids.values())):
        write_record(files, new_record("condemned"), {kind: ids[kind] for kind in KINDS})


def count_by_kind(ids: IdsByKind, kinds: Iterable[ObjectKind] = KINDS) -> dict[str, int]:
    """How many there are."""
    return {kind: len(ids[kind]) for kind in kinds}
