"""The answer to a fetch, put together of the answers that a server gave about its objects. Pure; what is asked of which is in object_store.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from frazil.stores.objects.range_requests import Answer
from frazil.stores.values import (
    ABSENT,
    ABSENT_KEY,
    FOUND,
    MISSING,
    STALE,
    Columns,
    Fetched,
    Sources,
    Version,
    resolve_span,
)

if TYPE_CHECKING:
    from frazil.stores.values import SourceBuffer

__all__ = ["put_together"]


def put_together(
    names: Sequence[str],
    spans: Columns,
    of_spans: Sequence[Answer],
    of_name: Sequence[Sequence[int]],
    answers: Sequence[Answer],
    wanted: Sequence[Version | None],
    held: Fetched | None,
) -> Fetched:
    status = [FOUND] * len(names)
    versions: list[Version | None] = [None] * len(names)
    young = [False] * len(names)
    sizes = np.full(len(names), -1, np.int64)
    for name, rows in enumerate(of_name):
        if not rows:
            assert held is not None
            status[name], versions[name], sizes[name] = held.status[name], held.versions[name], held.sizes[name]
            continue
        first = answers[rows[0]]
        expected = wanted[name]
        if expected is not None and (
            (first.state != "absent") if expected == ABSENT else any(answers[i].state != "found" for i in rows)
        ):
            status[name] = STALE
            versions[name] = first.version
        elif held is not None and not all(_as_held(answers[i], held, name) for i in rows):
            status[name] = STALE
        elif first.state == "absent":
            status[name] = ABSENT_KEY
        else:
            versions[name], young[name] = first.version, first.young
            sizes[name] = max(answers[i].size for i in rows)  # a web server need not tell it with every range
    buffers: list[SourceBuffer] = []
    out = np.full((len(spans), 3), (MISSING, 0, 0), np.int64)
    for i, ((name, start, length), answer) in enumerate(zip(spans.tolist(), of_spans, strict=True)):
        if status[name] == FOUND:
            buffers.append(answer.data)
            # a range that reaches beyond the end keeps its length, and fails where it is read
            kept = length if start >= 0 and length >= 0 else resolve_span(start, length, int(sizes[name]))[1]
            out[i] = -len(buffers), 0, kept
    return Fetched(Sources(None, buffers), status, versions, sizes, out, young if True in young else None)


def _as_held(answer: Answer, held: Fetched, name: int) -> bool:
    """Whether what is there may be what is held: of a web server that tells no versions, the size is all there is to go by."""
    if held.versions[name] is not None or held.status[name] != FOUND:
        return True
    return answer.state == "found" and answer.size == int(held.sizes[name])
