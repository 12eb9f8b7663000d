"""Appending to a value: one new value of the old object and the new bytes."""

from __future__ import annotations

import numpy as np

from frazil.base.retry import WRITES, attempts, outrun
from frazil.stores.port import StorePort
from frazil.stores.transfer.composed_values import composed, joined_sources
from frazil.stores.values import ABSENT, ANY, MISSING, STALE, WHOLE, Changed, Pieces, Version, check_not_lost


def append(store: StorePort, key: str, value: Pieces, expect: Version | None) -> Version | Changed:
    """Store.append. If the store answers with open files, the system copies the old bytes."""
    conditional = store.capabilities.expects
    expected = expect if conditional else ANY
    for _ in attempts(WRITES):
        old = store.fetch([key], WHOLE, expect=[expected])  # kept until versions are compared
        present = old.versions[0] or ABSENT
        if old.status[0] == STALE:
            if expected is ANY:  # replaced while it was read
                continue
            return Changed(present)
        sources, rows = joined_sources(old.sources, value.sources, value.rows)
        rows = np.concatenate((old.rows[old.rows[:, 0] != MISSING], rows))
        pieces = composed(sources, rows, np.array([0, len(rows)], np.int64))
        answer = store.put_many([key], pieces, [present if conditional else ANY])[0]
        if not isinstance(answer, Changed) or expected is not ANY:
            return answer
        check_not_lost(key, answer)
    raise outrun("the value", key, WRITES)
