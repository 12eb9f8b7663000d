"""The chunk of an array without dimensions, which may have either of two keys."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from frazil.metadata.draft.chunk_keys import DraftKeys
from frazil.metadata.grids.chunk_keys import DefaultKeys
from frazil.stores import ABSENT, ANY, MemoryStore, PlainChunks
from frazil.stores.array_storage.chunk_storage import ScalarChunk, plain_chunks
from frazil.stores.values import Changed, pieces_of

NOWHERE = np.zeros((1, 0), np.int64)


@pytest.fixture(params=[False, True], ids=["new", "old"])
def keys(request: pytest.FixtureRequest) -> DraftKeys:
    return DraftKeys("/", request.param)


def test_scalar_arrays_with_two_chunk_keys(keys: DraftKeys) -> None:
    store = MemoryStore()
    assert type(plain_chunks(store, "d/", keys, 0)) is ScalarChunk
    assert type(plain_chunks(store, "d/", keys, 1)) is PlainChunks
    assert type(plain_chunks(store, "d/", DefaultKeys("/"), 0)) is PlainChunks


@pytest.mark.rule("D22", "X25", "Z9")
@pytest.mark.parametrize("there", [(), ("own",), ("also",), ("own", "also")])
def test_the_existing_key_of_a_scalar_chunk_is_read(keys: DraftKeys, there: tuple[str, ...]) -> None:
    store = MemoryStore()
    names = {"own": "d/" + keys.alone, "also": "d/" + keys.also}
    for which in there:
        store.set(names[which], which.encode())
    chunk = plain_chunks(store, "d/", keys, 0)
    expected = names["also"] if there == ("also",) else names["own"]
    assert chunk.locate_one(()).names == (expected,)
    assert list(chunk.locate(NOWHERE).names) == [expected]
    assert chunk.sizes(NOWHERE).tolist() == [-1 if not there else len("own") if "own" in there else len("also")]
    assert len(chunk.stored(())) == len(there)
    assert chunk.coordinates(expected, 0) == ()
    chunk.publish(NOWHERE, pieces_of([b"new"]), [ANY])
    assert store.get(expected) == b"new"
    assert set(store.list()) == {expected, *(names[which] for which in there)}
    again = pickle.loads(pickle.dumps(chunk))
    assert again.locate_one(()).names == (expected,)
    chunk.erase(NOWHERE, [ANY])
    assert store.get(expected) is None


def test_a_chunk_that_another_writer_wrote_meanwhile(keys: DraftKeys) -> None:
    store = MemoryStore()
    chunk = plain_chunks(store, "d/", keys, 0)
    store.set("d/" + keys.also, b"theirs")
    (answer,) = chunk.publish(NOWHERE, pieces_of([b"ours"]), [ABSENT])
    assert isinstance(answer, Changed)
    assert store.get("d/" + keys.also) == b"theirs"
