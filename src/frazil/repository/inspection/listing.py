"""All keys of a repository, as the store lists them: objects in columns, other keys as counts."""

from __future__ import annotations

from typing import Final, get_args

import numpy as np

from frazil.base.arrays import Columns
from frazil.base.record import Record
from frazil.repository.format import ObjectKind, RepositoryFormat
from frazil.repository.inspection.report import Kept
from frazil.repository.maintenance.id_columns import NO_IDS, Ids, ids_of_names
from frazil.repository.maintenance.object_listing import Listed
from frazil.repository.maintenance.reachable import Progress
from frazil.stores.values import Page

KINDS: Final[tuple[ObjectKind, ...]] = get_args(ObjectKind)
_PAGE: Final = 2**18  # keys of one listing of a disk, which reads whole folders each time


class Everything(Record):
    """objects: of each kind;  other: keys that are not objects"""

    objects: dict[ObjectKind, Listed]
    other: Kept


def list_everything(files: RepositoryFormat, progress: Progress) -> Everything:
    """Lists a repository once. Raises StoreError."""
    store = files.store
    parts: dict[ObjectKind, list[tuple[Ids, Columns]]] = {kind: [] for kind in KINDS}
    other, following = Kept(), ""
    while True:
        page = store.list_page(
            files.prefix, following, details=True, limit=_PAGE if store.capabilities.direct else None
        )
        other = other.plus(_divide(page, files, parts))
        progress("keys listed", len(page.keys))
        if page.next is None:
            break
        following = page.next
    objects: dict[ObjectKind, Listed] = {}
    for kind, found in parts.items():
        ids = np.concatenate([NO_IDS, *(ids for ids, _ in found)])
        sizes = np.concatenate([np.zeros(0, np.int64), *(sizes for _, sizes in found)])
        order = ids.argsort(kind="stable")
        objects[kind] = Listed(ids[order], sizes[order])
    return Everything(objects, other)


def _divide(page: Page, files: RepositoryFormat, parts: dict[ObjectKind, list[tuple[Ids, Columns]]]) -> Kept:
    """Adds the objects of a page to their kinds, and returns the count of the other keys. Keys are sorted, so each kind is one run of keys."""
    keys = page.keys
    sizes = np.zeros(len(keys), np.int64) if page.sizes is None else np.maximum(page.sizes, 0)
    is_object = np.zeros(len(keys), np.bool_)
    for kind, found in parts.items():
        folder = files.key(f"{kind}/")
        rows = [row for row, key in enumerate(keys) if key.startswith(folder)]
        if rows:
            ids, valid = ids_of_names([keys[row][len(folder) :] for row in rows])
            own = np.array(rows, np.int64)[valid]
            is_object[own] = True
            found.append((ids, sizes[own]))
    return Kept(int((~is_object).sum()), int(sizes[~is_object].sum()))
