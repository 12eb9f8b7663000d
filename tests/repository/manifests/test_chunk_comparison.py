"""Which chunks differ between two lists of manifests, against plain dicts; and which manifests are loaded for that."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.repository.models import Chunk, Model, Payload, columns_of, manifest_of, payloads, together

from frazil.formats.ids import ObjectId
from frazil.formats.manifests import Manifest
from frazil.formats.nodes import ManifestReference
from frazil.repository.manifests.boxes import extents_of
from frazil.repository.manifests.chunk_comparison import Listed, compare_chunks, own_manifests, same_references

NODE = 5


class Manifests:
    """Manifests by number, and which of them were loaded."""

    def __init__(self, models: Sequence[Model], rank: int) -> None:
        self.models, self.rank, self.loaded = models, rank, set[int]()
        foreign = manifest_of(NODE + 1, {(0,) * rank: b"other"}, rank)
        wrong = manifest_of(NODE, {(0,) * (rank + 1): b"wrong"}, rank + 1)
        self.manifests = [together(manifest_of(NODE, model, rank), foreign, wrong) for model in models]

    def load(self, ids: Sequence[ObjectId]) -> list[Manifest]:
        numbers = [int.from_bytes(one, "big") for one in ids]
        self.loaded.update(numbers)
        return [self.manifests[number] for number in numbers]

    def listed(self, numbers: Sequence[int], grid: tuple[int, ...], *, free: bool, extents: bool = True) -> Listed:
        references = [
            ManifestReference(
                number.to_bytes(12, "big"),
                extents_of(columns_of(self.models[number], self.rank)).listed()
                if extents and self.models[number]
                else (),
            )
            for number in numbers
        ]
        return Listed(NODE, grid, tuple(references), free)


def inside(chunk: Chunk, *grids: tuple[int, ...]) -> bool:
    return all(one < limit for grid in grids for one, limit in zip(chunk, grid, strict=True))


def at(models: Sequence[Model], numbers: Sequence[int], chunk: Chunk, grid: tuple[int, ...]) -> Payload | None:
    """The reference that counts."""
    if not inside(chunk, grid):
        return None
    return next((models[number][chunk] for number in numbers if chunk in models[number]), None)


def tuples(found: object) -> list[Chunk]:
    return [tuple(row) for row in found.tolist()]  # type: ignore[attr-defined]


@st.composite
def lists(draw: st.DrawFn) -> tuple[int, list[Model], list[int], list[int], tuple[int, ...], tuple[int, ...]]:
    """A rank, models of manifests, two lists of some, two grids."""
    rank = draw(st.integers(0, 2))
    chunks = st.tuples(*[st.integers(0, 4)] * rank)
    models = draw(st.lists(st.dictionaries(chunks, payloads, max_size=5), min_size=1, max_size=5))
    some = st.lists(st.sampled_from(range(len(models))), unique=True, max_size=4)
    grids = st.tuples(*[st.integers(1, 6)] * rank)
    old = draw(some)
    # mostly an insertion before, after or in place of an entry
    new = draw(some | some.map(lambda more: [*more, *[one for one in old if one not in more]]))
    return rank, models, old, new, draw(grids), draw(grids)


@given(lists(), st.booleans())
def test_different_chunks_are_found(
    case: tuple[int, list[Model], list[int], list[int], tuple[int, ...], tuple[int, ...]], extents: bool
) -> None:
    rank, models, old, new, grid, new_grid = case
    manifests = Manifests(models, rank)
    one = manifests.listed(old, grid, free=True, extents=extents)
    other = manifests.listed(new, new_grid, free=True, extents=extents)
    own = [int.from_bytes(file, "big") for file in own_manifests(one, other)]
    *differing, references = compare_chunks(one, other, manifests.load)
    written, removed = (tuples(found) for found in differing)
    # the new references are those that count
    for chunk, number, row in zip(written, references.numbers.tolist(), references.rows.tolist(), strict=True):
        manifest, start = references.manifests[number], references.manifests[number].starts
        assert tuple(manifest.coordinates[start[row] : start[row + 1]].tolist()) == chunk
        payload = at(models, new, chunk, new_grid)
        assert payload is not None
        alone = manifest_of(NODE, {chunk: payload}, rank)
        assert same_references(manifest, np.array([row]), alone, np.zeros(1, np.int64)).all()
    chunks = sorted({chunk for number in own for chunk in models[number]})
    # references that both list beyond the end of one of them need not be reported: they should not exist
    left = {chunk for one in set(old) & set(new) for chunk in models[one] if not inside(chunk, grid, new_grid)}
    written, removed = (
        [chunk for chunk in written if chunk not in left],
        [chunk for chunk in removed if chunk not in left],
    )
    chunks = [chunk for chunk in chunks if chunk not in left]
    before = {chunk: at(models, old, chunk, grid) for chunk in chunks}
    after = {chunk: at(models, new, chunk, new_grid) for chunk in chunks}
    exact = [chunk for chunk in chunks if after[chunk] is not None and before[chunk] != after[chunk]]
    # a reference written before all others may equal the existing one
    again = {
        chunk
        for chunk in chunks
        if after[chunk] is not None and not any(chunk in models[one] for one in set(old) & set(own))
    }
    assert written == sorted(written) and removed == sorted(removed)
    assert set(exact) <= set(written) <= {*exact, *again}
    assert removed == [chunk for chunk in chunks if after[chunk] is None and before[chunk] is not None]
    # chunks in no manifest of only one side are equal
    for chunk in {chunk for model in models for chunk in model} - set(chunks):
        if inside(chunk, grid, new_grid):
            assert at(models, old, chunk, grid) == at(models, new, chunk, new_grid)


@given(st.data())
def test_disjoint_manifests_of_both_are_not_loaded(data: st.DataObject) -> None:
    """Snapshots of other writers: each place has at most one manifest, in one of its versions."""
    places = range(4)
    versions = [
        {(place * 3 + by,): payload for by, payload in data.draw(st.dictionaries(st.integers(0, 2), payloads)).items()}
        for place in places
        for _ in range(2)
    ]
    manifests = Manifests(versions, 1)
    old, new = (
        [
            place * 2 + version
            for place in data.draw(st.permutations(places))
            if (version := data.draw(st.sampled_from([0, 1, None]))) is not None
        ]
        for _ in range(2)
    )
    listed = [manifests.listed(side, (12,), free=False) for side in (old, new)]
    written, removed, _ = compare_chunks(*listed, manifests.load)
    chunks = [(at,) for at in range(12)]
    was, now = ([at(versions, side, chunk, (12,)) for chunk in chunks] for side in (old, new))
    assert tuples(written) == [
        chunk for chunk, one, other in zip(chunks, was, now, strict=True) if other is not None and one != other
    ]
    assert tuples(removed) == [
        chunk for chunk, one, other in zip(chunks, was, now, strict=True) if other is None and one is not None
    ]
    in_order = [one for one in old if one in new] == [one for one in new if one in old]
    if in_order:
        assert manifests.loaded <= set(old) ^ set(new)


def test_common_manifests_are_not_loaded() -> None:
    large = [{(place * 10 + by,): b"old" for by in range(10)} for place in range(5)]
    manifests = Manifests([*large, {(17,): b"new"}], 1)
    old = manifests.listed(range(5), (50,), free=True)
    new = manifests.listed([5, *range(5)], (50,), free=True)
    written, removed, _ = compare_chunks(old, new, manifests.load)
    assert tuples(written) == [(17,)] and not len(removed)
    assert manifests.loaded == {5}


def test_a_part_that_was_written_again_without_a_chunk() -> None:
    large = [{(place * 10 + by,): b"old" for by in range(10)} for place in range(5)]
    manifests = Manifests([*large, {(20 + by,): b"old" for by in range(10) if by != 3}], 1)
    old = manifests.listed(range(5), (50,), free=True)
    new = manifests.listed([0, 1, 5, 3, 4], (50,), free=True)
    written, removed, _ = compare_chunks(old, new, manifests.load)
    assert not len(written) and tuples(removed) == [(23,)]
    assert manifests.loaded == {2, 5}


def test_references_of_another_node_are_all_others() -> None:
    manifests = Manifests([{(0,): b"a"}], 1)
    old = manifests.listed([0], (2,), free=True)
    new = old._replace(node=NODE + 1)
    written, removed, _ = compare_chunks(old, new, manifests.load)
    assert tuples(written) == [(0,)] and not len(removed)
    assert own_manifests(old, old) == [] and own_manifests(old, new) == [old.manifests[0].id] * 2


@given(st.lists(st.tuples(payloads, payloads), max_size=12))
def test_the_same_references(pairs: list[tuple[object, object]]) -> None:
    left, right = (
        manifest_of(5, {(at,): pair[side] for at, pair in enumerate(pairs)}, 1)  # type: ignore[misc]
        for side in (0, 1)
    )
    rows = np.arange(len(pairs))
    same = same_references(left, rows, right, rows)
    assert same.tolist() == [one == other for one, other in pairs]
    assert same_references(left, rows[::-1], right, rows[::-1]).tolist() == same.tolist()[::-1]
    assert same_references(left, rows, left, rows).all()


def test_long_inline_chunks_are_compared_by_bytes() -> None:
    left = manifest_of(5, {(0,): bytes(3_000_000), (1,): b"x" * 600_000, (2,): b"y" * 600_000}, 1)
    right = manifest_of(5, {(0,): bytes(2_999_999) + b"1", (1,): b"x" * 600_000, (2,): b"y" * 599_999 + b"x"}, 1)
    assert same_references(left, np.arange(3), right, np.arange(3)).tolist() == [False, True, False]
