"""All objects of a repository, as the store lists them: ids and sizes in columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.record import Record
from frazil.repository.format import ObjectKind, RepositoryFormat
from frazil.repository.maintenance.id_columns import Ids, ids_of_names

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Listed", "list_objects"]

_PAGE: Final = 2**18  # keys of one listing on a disk, where each looks at the whole folder


class Listed(Record):
    """The objects of one kind. ids sorted; sizes: bytes of each, None where nobody said them"""

    ids: Ids
    sizes: NDArray[np.int64] | None


def list_objects(files: RepositoryFormat, kind: ObjectKind, *, details: bool) -> Listed:
    """All objects of a kind. Foreign files are left out. details: with their sizes. Raises StoreError."""
    store, folder = files.store, files.key(f"{kind}/")
    ids: list[Ids] = []
    sizes: list[NDArray[np.int64]] = []
    following: str | None = ""
    while following is not None:
        page = store.list_page(folder, following, details=details, limit=_PAGE if store.capabilities.direct else None)
        found, rows = ids_of_names([key[len(folder) :] for key in page.keys])
        ids.append(found)
        if page.sizes is not None:
            sizes.append(page.sizes[rows])
        following = page.next
    return Listed(np.concatenate(ids), np.concatenate(sizes) if details else None)
