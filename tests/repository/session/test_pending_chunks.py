"""How much of a session's chunks waits in memory: within bytes_in_flight, however many there are and however often they are written."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.runtime import Runtime

LIMIT = 2**18


@pytest.mark.parametrize("compatible", [None, "alpha-library"])
@pytest.mark.parametrize(("size", "count", "turns"), [(2**15, 8, 60), (256, 64, 100), (256, 2**13, 2)], ids=str)
def test_chunks_that_are_rewritten(tmp_path: Path, size: int, count: int, turns: int, compatible: str | None) -> None:
    """Chunks that go to packs, and chunks that stay in manifests: much is written, and little is held."""
    if compatible is not None and count > 64:
        pytest.skip("a file for each chunk")
    repo = frazil.Repository.create(
        tmp_path / "x",
        compatible=compatible,
        durable=False,
        runtime=Runtime(threads=1, bytes_in_flight=LIMIT, cache_bytes=0),
    )
    session = repo.writable_session()
    array = session.root.create_array("a", shape=(size * count,), dtype="u1", chunks=(size,), codecs=[], fill_value=0)
    values = np.zeros(size * count, "u1")
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for turn in range(turns):
            values[:] = turn % 250 + 1
            array[:] = values
        held, peak = (memory - before for memory in tracemalloc.get_traced_memory())
    finally:
        tracemalloc.stop()
    assert session._transaction.changes.pending.nbytes <= 2 * LIMIT + values.nbytes
    assert held < 4 * LIMIT + 2 * values.nbytes
    assert peak < 12 * LIMIT + 4 * values.nbytes
    session.commit("written")
    assert np.array_equal(repo.readonly_session().open("a")[...], values)  # type: ignore[index]
