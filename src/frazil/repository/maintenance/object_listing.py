"""All objects of a repository, as the store lists them: ids and sizes in columns."""

from __future__ import annotations

from frazil.base.arrays import Columns
from frazil.base.record import Record
from frazil.formats.ids import ID_CHARACTERS
from frazil.repository.format import ObjectKind, RepositoryFormat
from frazil.repository.maintenance.id_columns import Ids, ids_of_column
from frazil.repository.replaced_files import refuse_replaced


class Listed(Record):
    """The objects of one kind. ids sorted; sizes: bytes of each, or None"""

    ids: Ids
    sizes: Columns | None


def list_objects(files: RepositoryFormat, kind: ObjectKind, *, details: bool) -> Listed:
    """All objects of a kind. Foreign files are skipped. details: with their sizes, and without objects that are removed meanwhile. Raises StoreError,
    FormatError for a link or the like in the place of their folder."""
    refuse_replaced(files.store, [files.key(kind)])
    column = files.store.list_column(files.key(f"{kind}/"), ID_CHARACTERS, sizes=details)
    ids, valid = ids_of_column(column.names)
    return Listed(ids, None if column.sizes is None else column.sizes[valid])
