"""The answer to a fetch, combined from the answers of the server about its objects. Pure; the requests are chosen in object_store.py."""

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
    Versions,
    resolve_span,
)

if TYPE_CHECKING:
    from frazil.stores.values import SourceBuffer


def put_together(
    names: Sequence[str],
    spans: Columns,
    answers: Sequence[Answer],
    of_name: Sequence[Sequence[int]],
    expect: Versions,
    continue_from: Fetched | None,
) -> Fetched:
    """answers: about the spans, then about names without spans; of_name: their rows for each name."""
    status = [FOUND] * len(names)
    versions: list[Version | None] = [None] * len(names)
    version_may_repeat = [False] * len(names)
    sizes = np.full(len(names), -1, np.int64)
    for name, rows in enumerate(of_name):
        if not rows:
            assert continue_from is not None
            status[name], versions[name] = continue_from.status[name], continue_from.versions[name]
            sizes[name] = continue_from.sizes[name]
            continue
        first = answers[rows[0]]
        expected = expect[name]
        if expected is not None and (
            (first.state != "absent") if expected == ABSENT else any(answers[i].state != "found" for i in rows)
        ):
            status[name] = STALE
            versions[name] = first.version
        elif continue_from is not None and not all(_is_continued(answers[i], continue_from, name) for i in rows):
            status[name] = STALE
        elif first.state == "absent":
            status[name] = ABSENT_KEY
        else:
            versions[name], version_may_repeat[name] = first.version, first.version_may_repeat
            sizes[name] = max(answers[i].size for i in rows)  # a web server need not report it with every range
    buffers: list[SourceBuffer] = []
    out = np.full((len(spans), 3), (MISSING, 0, 0), np.int64)
    for i, (name, start, length) in enumerate(spans.tolist()):
        if status[name] == FOUND:
            buffers.append(answers[i].data)
            # a range that reaches beyond the end keeps its length, and reading it fails
            nbytes = length if start >= 0 and length >= 0 else resolve_span(start, length, int(sizes[name]))[1]
            out[i] = -len(buffers), 0, nbytes
    return Fetched(
        Sources(None, buffers), status, versions, sizes, out, version_may_repeat if True in version_may_repeat else None
    )


def are_of_several(answers: Sequence[Answer]) -> bool:
    """Whether answers about one object are of several versions of it. Of a server that tells no versions, the sizes are all there is to go by."""
    sizes = {answer.size for answer in answers if answer.version is None and answer.size >= 0}
    return len(sizes) > 1 or len({(answer.state, answer.version) for answer in answers}) > 1


def _is_continued(answer: Answer, continue_from: Fetched, name: int) -> bool:
    """Whether the present object may be the one held. If a web server reports no versions, only the sizes can be compared, as far as it reports those."""
    if continue_from.versions[name] is not None or continue_from.status[name] != FOUND:
        return True
    sizes = {answer.size, int(continue_from.sizes[name])} - {-1}
    return answer.state == "found" and len(sizes) < 2
