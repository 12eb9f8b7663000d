"""Appending to values: by the store itself, or as one new value of the old object and the new bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from frazil.stores.port import StorePort
from frazil.stores.transfer.composed_values import chained, composed, picked
from frazil.stores.transfer.retry import WRITES, attempts, outrun
from frazil.stores.values import ABSENT, ANY, MISSING, STALE, Changed, Pieces, Version, check_not_lost, whole_spans


def append_many(
    store: StorePort, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
) -> list[Version | Changed]:
    """As put_many, but each value is appended to the present one, if there is one. Published whole, too."""
    if store.capabilities.appendable:
        return store.put_many(names, pieces._replace(append=True), expect)
    return append_by_put(store, names, pieces, expect)


def append_by_put(
    store: StorePort, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
) -> list[Version | Changed]:
    """append_many by fetch and put_many. If the store answers with open files, the system copies the old bytes."""
    conditional = store.capabilities.expects
    answers: list[Version | Changed] = [Changed(ABSENT)] * len(names)
    pending = np.arange(len(names))
    pieces = pieces._replace(append=False)
    for _ in attempts(WRITES):
        expected = [expect[i] if conditional else ANY for i in pending.tolist()]
        keys = [names[i] for i in pending.tolist()]
        old_values = store.fetch(keys, whole_spans(len(keys)), expect=expected)  # kept until versions are compared
        present = [version or ABSENT for version in old_values.versions]
        fits = np.array([state != STALE for state in old_values.status], np.bool_)
        again = [number for number in np.flatnonzero(~fits).tolist() if expected[number] is ANY]
        for number in np.flatnonzero(~fits).tolist():
            answers[pending[number]] = Changed(present[number])
        going = np.flatnonzero(fits)
        rows = old_values.rows[going]
        existing = rows[:, 0] != MISSING
        old = composed(old_values.sources, rows[existing], np.concatenate(([0], np.cumsum(existing))))
        put = store.put_many(
            [names[i] for i in pending[going].tolist()],
            chained(old, picked(pieces, pending[going])),
            [present[i] if conditional else ANY for i in going.tolist()],
        )
        for number, answer in zip(going.tolist(), put, strict=True):
            answers[pending[number]] = answer
            if isinstance(answer, Changed) and expected[number] is ANY:
                check_not_lost(names[int(pending[number])], answer)
                again.append(number)
        if not again:
            return answers
        pending = pending[again]
    raise outrun("the value", names[int(pending[0])], WRITES)
