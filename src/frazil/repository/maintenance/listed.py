"""All objects of a repository, as the store lists them: ids and sizes in columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from frazil.formats.ids import ID_CHARACTERS
from frazil.record import Record
from frazil.repository.format import ObjectKind, RepositoryFormat
from frazil.repository.maintenance.id_columns import NO_IDS, Ids, ids_of_column, ids_of_names

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Listed", "list_objects"]


class Listed(Record):
    """The objects of one kind. ids sorted; sizes: bytes of each, None where nobody said them"""

    ids: Ids
    sizes: NDArray[np.int64] | None


def list_objects(files: RepositoryFormat, kind: ObjectKind, *, details: bool) -> Listed:
    """All objects of a kind. Foreign files are left out. details: with their sizes, where a listing tells these anyway. Raises StoreError."""
    store, folder = files.store, files.key(f"{kind}/")
    if not details:
        return Listed(ids_of_column(store.list_column(folder, ID_CHARACTERS))[0], None)
    ids: list[Ids] = []
    sizes: list[NDArray[np.int64]] = []
    for page in store.list_pages(folder, details=True):
        assert page.sizes is not None
        found, rows = ids_of_names([key[len(folder) :] for key in page.keys])
        ids.append(found)
        sizes.append(page.sizes[rows])
    return Listed(np.concatenate([NO_IDS, *ids]), np.concatenate([np.zeros(0, np.int64), *sizes]))
