"""References over several manifests, against plain dicts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.repository.models import Chunk, Model, columns_of, manifest_of, model_of, payload_at, payloads, together

from frazil.errors import InvalidInputError
from frazil.formats.alpha.manifests import NO_FLAGS, Manifest
from frazil.repository.manifests import references
from frazil.repository.manifests.references import (
    Extents,
    References,
    box_of,
    make_extents,
    read_extents,
    rows_of_array,
    same_references,
)

NODE = 5


def chunks_of(rank: int) -> st.SearchStrategy[Chunk]:
    coordinate = st.one_of(st.integers(0, 3), st.sampled_from([2**31, 2**32 - 1]))
    return st.tuples(*[coordinate] * rank)


def models_of(rank: int) -> st.SearchStrategy[Model]:
    return st.dictionaries(chunks_of(rank), payloads, max_size=8)


@st.composite
def several(draw: st.DrawFn) -> tuple[int, list[Manifest], Model]:
    """A rank, manifests with other nodes and references of wrong ranks among them, and what counts."""
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


@given(several(), st.data())
def test_the_first_manifest_that_has_a_chunk_counts(
    case: tuple[int, list[Manifest], Model], data: st.DataObject
) -> None:
    rank, manifests, model = case
    found = References(manifests, NODE, rank)
    wanted = data.draw(st.lists(st.one_of(chunks_of(rank), st.sampled_from([*model, (0,) * rank])), max_size=60))
    if data.draw(st.booleans()):
        assert list(map(tuple, found.coordinates().tolist())) == sorted(model)
    numbers, rows = found.find(columns_of(wanted, rank))
    assert [number.dtype for number in (numbers, rows)] == [np.int64, np.int64]
    for chunk, number, row in zip(wanted, numbers.tolist(), rows.tolist(), strict=True):
        assert (number >= 0) == (chunk in model)
        assert found.find_one(chunk) == References(manifests, NODE, rank).find_one(chunk) == (number, row)
        assert number < 0 or payload_at(manifests[number], row) == model[chunk]
        assert number >= 0 or row == -1


@given(several(), st.randoms(use_true_random=False))
def test_references_as_columns(case: tuple[int, list[Manifest], Model], random: object) -> None:
    rank, manifests, model = case
    chunks = list(model)
    random.shuffle(chunks)  # type: ignore[attr-defined]
    wanted = np.array(chunks, np.int64).reshape(len(chunks), rank)
    taken = References(manifests, NODE, rank).columns(wanted) if chunks else manifest_of(NODE, {}, rank)
    assert taken.coordinates.tolist() == wanted.reshape(-1).tolist()
    assert model_of(taken, NODE) == model
    assert taken.flags == NO_FLAGS


def test_columns_of_a_chunk_without_reference() -> None:
    found = References([manifest_of(NODE, {(1, 2): b"a"}, 2)], NODE, 2)
    with pytest.raises(InvalidInputError) as error:
        found.columns(np.array([[1, 2], [3, 4]]))
    assert error.value.chunk == (3, 4)


def test_coordinates_of_another_rank_are_refused() -> None:
    found = References([], NODE, 2)
    with pytest.raises(InvalidInputError):
        found.find(np.zeros((1, 3), np.int64))
    with pytest.raises(InvalidInputError):
        found.find_one((1,))


def test_one_array_without_any_manifest() -> None:
    found = References([], NODE, 2)
    assert found.find_one((0, 0)) == (-1, -1)
    assert found.coordinates().shape == (0, 2)
    assert found.find(np.zeros((3, 2), np.int64))[0].tolist() == [-1] * 3


@given(several())
def test_rows_of_an_array(case: tuple[int, list[Manifest], Model]) -> None:
    rank, manifests, _ = case
    for manifest in manifests:
        rows, coordinates = rows_of_array(manifest, NODE, rank)
        assert coordinates.shape == (rows.size, rank)
        expected = [chunk for chunk in model_of(manifest, NODE) if len(chunk) == rank]
        assert list(map(tuple, coordinates.tolist())) == expected
        assert (manifest.nodes[rows] == NODE).all()


@pytest.mark.parametrize("batch", [1, 3, 2**20])
@given(st.lists(st.tuples(payloads, payloads), max_size=12))
def test_the_same_references(batch: int, pairs: list[tuple[object, object]]) -> None:
    left, right = (
        manifest_of(NODE, {(at,): pair[side] for at, pair in enumerate(pairs)}, 1)  # type: ignore[misc]
        for side in (0, 1)
    )
    rows = np.arange(len(pairs))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(references, "_BATCH", batch)
        same = same_references(left, rows, right, rows)
        assert same.tolist() == [one == other for one, other in pairs]
        assert same_references(left, rows[::-1], right, rows[::-1]).tolist() == same.tolist()[::-1]
        assert same_references(left, rows, left, rows).all()


def test_same_long_bytes() -> None:
    left = manifest_of(NODE, {(0,): bytes(3_000_000), (1,): b"x" * 600_000, (2,): b"y" * 600_000}, 1)
    right = manifest_of(NODE, {(0,): bytes(2_999_999) + b"1", (1,): b"x" * 600_000, (2,): b"y" * 599_999 + b"x"}, 1)
    assert same_references(left, np.arange(3), right, np.arange(3)).tolist() == [False, True, False]


@given(st.integers(0, 3).flatmap(lambda rank: st.lists(chunks_of(rank), min_size=1, unique=True)))
def test_extents_come_back(chunks: list[Chunk]) -> None:
    rank = len(chunks[0])
    coordinates = np.array(chunks, np.int64).reshape(len(chunks), rank)
    extents = make_extents(coordinates)
    read = read_extents(extents, rank)
    assert read == Extents(*box_of(coordinates), len(chunks))
    assert read_extents(extents, rank + 1) is None
    for chunk in chunks:
        assert all(low <= at <= high for low, at, high in zip(read.first, chunk, read.last, strict=True))


@pytest.mark.parametrize(
    "extents",
    [
        (),
        ((0, 0), (1, 1)),
        ((0, 0), (1, 1), ()),
        ((0, 0), (1, 1), (1, 1)),
        ((0, 0), (1,), (1,)),
        ((0, 2), (1, 1), (1,)),
        ((-1, 0), (1, 1), (1,)),
        ((0, 0), (1, 1), (0,)),
        ((0, 0), (1, 1), (5,)),
        ((0, 0), (1, 1), (4,), (4,)),
    ],
)
def test_foreign_extents_say_nothing(extents: tuple[tuple[int, ...], ...]) -> None:
    assert read_extents(extents, 2) is None


def test_no_coordinates_have_no_box() -> None:
    with pytest.raises(InvalidInputError):
        box_of(np.zeros((0, 2), np.int64))
