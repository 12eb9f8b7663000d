"""Appending for stores that have no such operation: the old object, held, and the new bytes behind it, put as one value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from frazil.errors import StoreError
from frazil.stores.fetched.composed_values import chained, composed, picked
from frazil.stores.retry import WRITES, attempts
from frazil.stores.values import (
    ABSENT,
    ANY,
    MISSING,
    STALE,
    Capabilities,
    Changed,
    Columns,
    Fetched,
    Pieces,
    Version,
    check_not_lost,
)

__all__ = ["append_by_put"]


class _Store(Protocol):
    """What is asked of a store here."""

    @property
    def capabilities(self) -> Capabilities: ...
    def fetch(
        self, names: Sequence[str], spans: Columns, *, expect: Sequence[Version | None] | None = None
    ) -> Fetched: ...
    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]: ...


def append_by_put(
    store: _Store, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
) -> list[Version | Changed]:
    """Store.append_many by fetch and put_many. Where the store hands out open files, the old bytes are copied by the system alone."""
    conditional = store.capabilities.expects
    answers: list[Version | Changed] = [Changed(ABSENT)] * len(names)
    pending = np.arange(len(names))
    for _ in attempts(WRITES):
        wanted = [expect[i] if conditional else ANY for i in pending.tolist()]
        spans = np.zeros((len(pending), 3), np.int64)
        spans[:, 0], spans[:, 2] = np.arange(len(pending)), -1
        held = store.fetch(
            [names[i] for i in pending.tolist()], spans, expect=wanted
        )  # kept until its versions are expected
        present = [version or ABSENT for version in held.versions]
        fits = np.array([state != STALE for state in held.status], np.bool_)
        again = [place for place in np.flatnonzero(~fits).tolist() if wanted[place] is ANY]
        for place in np.flatnonzero(~fits).tolist():
            answers[pending[place]] = Changed(present[place])
        going = np.flatnonzero(fits)
        rows = held.rows[going]
        here = rows[:, 0] != MISSING
        old = composed(held.sources, rows[here], np.concatenate(([0], np.cumsum(here))))
        put = store.put_many(
            [names[i] for i in pending[going].tolist()],
            chained(old, picked(pieces, pending[going])),
            [present[i] if conditional else ANY for i in going.tolist()],
        )
        for place, answer in zip(going.tolist(), put, strict=True):
            answers[pending[place]] = answer
            if isinstance(answer, Changed) and wanted[place] is ANY:
                check_not_lost(names[int(pending[place])], answer)
                again.append(place)
        if not again:
            return answers
        pending = pending[again]
    raise StoreError(f"others changed the value before each of {WRITES.attempts} attempts", key=names[int(pending[0])])
