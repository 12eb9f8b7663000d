"""frazil.rechunk from a source that is read by requests: how often chunks are requested, and with how much memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.operations.rechunk.test_rechunk import ARGUMENTS, VALUES, Stop, source_at, stopped_at

import frazil
from frazil import Runtime
from frazil.operations.copy.journal import JOURNAL_NAME, parse_journal
from frazil.stores import MemoryStore
from frazil.testing import CountingStore


@pytest.fixture
def no_least(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that is read by requests gets no more memory than others."""
    monkeypatch.setattr("frazil.operations.rechunk.rechunk._LEAST", 1)


def test_a_source_that_is_read_by_requests_gets_some_memory() -> None:
    counting = CountingStore(MemoryStore())
    source_at(counting)
    counting.clear()
    frazil.rechunk(counting, MemoryStore(), chunks=(30, 5, 5), runtime=Runtime(bytes_in_flight=1))
    assert max(counting.count("fetch", f"c/{i}/0/0") for i in range(30)) == 1


@pytest.mark.usefixtures("no_least")
def test_source_chunks_are_read_as_often_as_is_said() -> None:
    counting = CountingStore(MemoryStore())
    source = source_at(counting)
    for limit in (1000, 40_000, 10**6):
        counting.clear()
        done = frazil.rechunk(source, MemoryStore(), chunks=(30, 5, 5), runtime=Runtime(bytes_in_flight=limit))
        reads = [
            request for request in counting.requests if request.operation == "fetch" and request.key.startswith("c/")
        ]
        assert len(reads) == pytest.approx(done.reads * source.nchunks)
    assert done.reads == 1


@pytest.mark.usefixtures("no_least")
@pytest.mark.parametrize("codecs", ["auto", []])
def test_a_chunk_that_is_larger_than_the_bytes(codecs: Any) -> None:
    """A compressed chunk was decoded once for each slab with a part of it. For a plain chunk only parts are read, so that slabs stay small."""
    counting = CountingStore(MemoryStore())
    values = np.arange(128 * 256, dtype="f4").reshape(128, 256)
    frazil.create_array(counting, data=values, chunks=(128, 128), codecs=codecs)
    counting.clear()
    target, limit = MemoryStore(), Runtime(bytes_in_flight=2**14)
    done = frazil.rechunk(counting, target, chunks=(16, 16), shards=(64, 64), runtime=limit)
    assert done.slab_nbytes == (128 * 128 if codecs else 64 * 64) * 4
    if codecs:
        assert [counting.count("fetch", f"c/0/{i}") for i in range(2)] == [1, 1]
    np.testing.assert_array_equal(frazil.open_array(target)[...], values)


@pytest.mark.usefixtures("no_least")
@pytest.mark.parametrize("limit", [40_000, 10**6])
def test_interrupted_rechunks_are_resumed(limit: int) -> None:
    """Also with another memory limit, which would choose other slabs."""
    source, target = CountingStore(MemoryStore()), MemoryStore()
    source_at(source)
    with pytest.raises(Stop):
        frazil.rechunk(source, target, progress=stopped_at(2), **ARGUMENTS)  # type: ignore[arg-type]
    journal = parse_journal(target.get(JOURNAL_NAME))
    assert journal is not None
    assert journal.state["slabs"] == 2
    source.clear()
    written: list[int] = []
    again = {**ARGUMENTS, "runtime": Runtime(bytes_in_flight=limit)}
    done = frazil.rechunk(source, target, progress=written.append, **again)  # type: ignore[arg-type]
    assert (done.found, done.slabs - 2) == (2, len(written))
    assert done.slabs > 2
    np.testing.assert_array_equal(frazil.open_array(target)[...], VALUES)
    assert JOURNAL_NAME not in target.list()
