"""References over several manifests, against plain dicts."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.repository.models import Chunk, Model, columns_of, manifest_of, model_of, payload_at, payloads, together

from frazil.formats.manifests import Manifest, rows_of_array
from frazil.formats.nodes import ManifestReference
from frazil.repository.manifests.boxes import extents_of
from frazil.repository.manifests.references import BaseReferences, References
from frazil.stores.caches.byte_cache import ByteCache

NODE = 5


def chunks_of(rank: int) -> st.SearchStrategy[Chunk]:
    coordinate = st.one_of(st.integers(0, 3), st.sampled_from([2**31, 2**32 - 1]))
    return st.tuples(*[coordinate] * rank)


def models_of(rank: int) -> st.SearchStrategy[Model]:
    return st.dictionaries(chunks_of(rank), payloads, max_size=8)


@st.composite
def several(draw: st.DrawFn) -> tuple[int, list[Manifest], Model]:
    """A rank, manifests with other nodes and references of wrong ranks among them, and the valid references."""
    rank = draw(st.integers(0, 3))
    models = draw(st.lists(models_of(rank), max_size=5))
    wrong = manifest_of(NODE, draw(models_of(rank + 1)), rank + 1)
    shorter = manifest_of(NODE, draw(models_of(max(rank - 1, 0))) if rank else {}, max(rank - 1, 0))
    others = [manifest_of(NODE + by, draw(models_of(rank)), rank) for by in (-1, 1)]
    manifests = []
    counts: Model = {}
    for model in models:
        parts = draw(st.lists(st.sampled_from([wrong, shorter, *others]), max_size=3))
        manifests.append(together(manifest_of(NODE, model, rank), *parts))
    for model in reversed(models):
        counts.update(model)
    return rank, manifests, counts


def of_snapshot(manifests: Sequence[Manifest], rank: int, boxed: Sequence[bool]) -> BaseReferences:
    """The references of an array that lists these manifests; some have a box."""
    known = {bytes([at]) * 12: manifest for at, manifest in enumerate(manifests)}
    listed = []
    for (identity, manifest), has_box in zip(known.items(), boxed, strict=True):
        coordinates = rows_of_array(manifest, NODE, rank)[1]
        listed.append(
            ManifestReference(identity, extents_of(coordinates).listed() if has_box and len(coordinates) else ())
        )
    files = SimpleNamespace(
        memory=ByteCache(0), key=lambda name: name, manifests=lambda ids: [known[identity] for identity in ids]
    )
    array = SimpleNamespace(manifests=listed, metadata=SimpleNamespace(shape=(1,) * rank))
    return BaseReferences(files, SimpleNamespace(id=NODE, path="/x"), array, trusted=True)  # type: ignore[arg-type]


@pytest.mark.rule("I257")
@given(several(), st.data())
def test_the_first_manifest_that_has_a_chunk_counts(
    case: tuple[int, list[Manifest], Model], data: st.DataObject
) -> None:
    rank, manifests, model = case
    boxed = data.draw(st.lists(st.booleans(), min_size=len(manifests), max_size=len(manifests)))
    found = of_snapshot(manifests, rank, boxed)
    requested = data.draw(st.lists(st.one_of(chunks_of(rank), st.sampled_from([*model, (0,) * rank])), max_size=60))
    if data.draw(st.booleans()):
        assert set(map(tuple, found.coordinates().tolist())) == set(model)
    numbers, rows = found.find(columns_of(requested, rank))
    assert [number.dtype for number in (numbers, rows)] == [np.int64, np.int64]
    for chunk, number, row in zip(requested, numbers.tolist(), rows.tolist(), strict=True):
        assert (number >= 0) == (chunk in model)
        assert found.find_one(chunk) == of_snapshot(manifests, rank, boxed).find_one(chunk) == (number, row)
        assert number < 0 or payload_at(manifests[number], row) == model[chunk]
        assert number >= 0 or row == -1


def test_an_array_without_manifests() -> None:
    found = of_snapshot([], 2, [])
    assert found.find_one((0, 0)) == (-1, -1)
    assert found.coordinates().shape == (0, 2)
    assert found.find(np.zeros((3, 2), np.int64))[0].tolist() == [-1] * 3


@given(several(), st.data())
def test_rows_of_one_manifest(case: tuple[int, list[Manifest], Model], data: st.DataObject) -> None:
    rank, manifests, _ = case
    for manifest in manifests:
        references = References(manifest, NODE, rank)
        coordinates = references.coordinates()
        expected = [chunk for chunk in model_of(manifest, NODE) if len(chunk) == rank]
        assert list(map(tuple, coordinates.tolist())) == expected
        requested = [*expected, *data.draw(st.lists(chunks_of(rank), max_size=4)), (-1,) * rank, (2**62,) * rank]
        searched = [References(manifest, NODE, rank).find_one(chunk) for chunk in requested]
        assert references.find(columns_of(requested, rank)).tolist() == searched
        assert [references.find_one(chunk) for chunk in requested] == searched
        for chunk, row in zip(requested, searched, strict=True):
            assert (row >= 0) == (chunk in expected)
            assert row < 0 or tuple(manifest.coordinates[manifest.starts[row] : manifest.starts[row + 1]]) == chunk
