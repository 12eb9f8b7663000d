"""Changes of branches that another process made and may have been unable to sync: they are synced before anything durable rests on them."""

from __future__ import annotations

from collections.abc import Iterable

from frazil.repository.format import RepositoryFormat, Tip


def sync_tips(files: RepositoryFormat, tips: Iterable[Tip]) -> None:
    """Syncs the changes that made these tips. What they name was synced before they could be read. Raises StoreError."""
    store = files.store.uncached
    if not store.capabilities.local or store.unsynced() is not store:  # else the user wants no syncs
        store.sync_values([files.tip_key(tip) for tip in tips])
