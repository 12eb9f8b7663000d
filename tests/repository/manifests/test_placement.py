"""Manifests of commits: histories of several arrays against plain dicts, and the valid forms of lists of manifests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, count, pairwise, product
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.repository.models import (
    Chunk,
    Model,
    Payload,
    columns_of,
    manifest_of,
    payload_at,
    payloads,
    together,
)
from tests.slow_properties import search

from frazil.errors import InvalidInputError
from frazil.formats.alpha.manifests import decode_manifest, encode_manifest
from frazil.formats.ids import ObjectId
from frazil.formats.manifests import Manifest, rows_of_array
from frazil.formats.nodes import ManifestReference
from frazil.repository.format import ArrayPlacement
from frazil.repository.manifests.boxes import extents_of, read_extents
from frazil.repository.manifests.placement import (
    SPLIT,
    TIER,
    Placed,
    Placing,
)

LIMIT = 8  # instead of SPLIT
limits = st.sampled_from([LIMIT, 40])  # 40: up to three overlays
HALF = LIMIT // 2
GONE = 99  # a removed node


def fresh_ids() -> Iterator[ObjectId]:
    return (number.to_bytes(12, "big") for number in count(1))


class Kept:
    """An array in the snapshot, and its expected references."""

    def __init__(self, node: int, rank: int, grid: Sequence[int]) -> None:
        self.node, self.rank, self.grid = node, rank, tuple(grid)
        self.manifests: tuple[ManifestReference, ...] = ()
        self.model: Model = {}

    def change(self, grid: Sequence[int], written: Mapping[Chunk, Payload], removed: Sequence[Chunk]) -> ArrayPlacement:
        """The effect of a commit on the model."""
        self.grid = tuple(grid)
        self.model = {chunk: payload for chunk, payload in self.model.items() if chunk not in removed}
        self.model.update(written)
        self.model = {
            chunk: payload
            for chunk, payload in self.model.items()
            if all(at < extent for at, extent in zip(chunk, grid, strict=True))
        }
        return ArrayPlacement(
            self.node,
            self.rank,
            self.grid,
            self.manifests,
            manifest_of(self.node, written, self.rank),
            columns_of(removed, self.rank),
            f"/{self.node}",
        )


class Repository:
    """Files, and the arrays of the newest snapshot."""

    def __init__(self, arrays: Sequence[Kept], *, freedoms: bool, trusted: bool, limit: int = LIMIT) -> None:
        self.arrays, self.freedoms, self.trusted, self.limit, self.half = arrays, freedoms, trusted, limit, limit // 2
        self.files: dict[ObjectId, Manifest] = {}
        self.ids = fresh_ids()

    def commit(self, kept: Sequence[Kept], changes: Sequence[ArrayPlacement]) -> Placed:
        freedoms, trusted = self.freedoms, self.trusted
        placing = Placing(changes, freedoms=freedoms, trusted=trusted, split=self.limit)
        needed = placing.needed()
        assert len(needed) == len(set(needed))
        assert {*needed} <= {reference.id for change in changes for reference in change.manifests}
        placed = placing.place({name: self.files[name] for name in needed}, lambda _: next(self.ids))
        before = {reference.id for change in changes for reference in change.manifests}
        after = {reference.id for references in placed.references for reference in references}
        assert placed.unlisted == before - after
        assert {name for name, _ in placed.files} <= after <= before | {name for name, _ in placed.files}
        for name, manifest in placed.files:
            assert name not in self.files
            assert 1 <= manifest.size <= self.limit
            assert {*manifest.nodes.tolist()} <= {change.node for change in changes}
            assert manifest.inline.size == manifest.lengths[manifest.kinds == 0].sum()
            assert manifest.location_starts.size - 1 == len({*manifest.locations.tolist()} - {-1})
            self.files[name] = decode_manifest(memoryview(encode_manifest(manifest)))
        for array, change, references in zip(kept, changes, placed.references, strict=True):
            old = {reference.id: reference for reference in change.manifests}
            for reference in references:
                if trusted and reference.id in old and read_extents(old[reference.id].extents, array.rank):
                    assert reference == old[reference.id]
            array.manifests = references
        self.trusted = freedoms
        return placed

    def check(self, array: Kept) -> None:
        """The array contains the expected references."""
        manifests = [self.files[reference.id] for reference in array.manifests]
        found: Model = {}
        for manifest in reversed(manifests):  # the first one with a chunk counts
            rows, chunks = rows_of_array(manifest, array.node, array.rank)
            found |= {
                tuple(at): payload_at(manifest, row) for row, at in zip(rows.tolist(), chunks.tolist(), strict=True)
            }
        assert found == array.model

    def coordinates(self, array: Kept, number: int) -> set[Chunk]:
        _, chunks = rows_of_array(self.files[array.manifests[number].id], array.node, array.rank)
        return {*map(tuple, chunks.tolist())}

    def check_list(self, array: Kept, written: set[ObjectId]) -> None:
        """The list has the form that placement.py defines."""
        every = [self.coordinates(array, number) for number in range(len(array.manifests))]
        if not self.freedoms:
            assert all(not one & other for one, other in combinations(every, 2))
            assert all(reference.extents == () for reference in array.manifests if reference.id in written)
        else:
            for reference, chunks in zip(array.manifests, every, strict=True):
                assert reference.extents == extents_of(columns_of(sorted(chunks), array.rank)).listed()
        sizes = [len(chunks) for chunks in every]
        first = next((at for at, size in enumerate(sizes) if size >= self.half), len(sizes))
        overlays, parts = sizes[:first], every[first:]
        assert all(after >= TIER * before for before, after in pairwise(overlays))
        assert len(overlays) <= 1 + log(self.half, TIER)
        assert all(not one & other for one, other in combinations(parts, 2))
        assert all(len(part) >= self.half for part in parts[:-1])
        assert len(parts) <= 2 + len(array.model) / self.half


chunk_grids = st.integers(0, 2).flatmap(lambda rank: st.tuples(*[st.integers(0, 12 if rank == 1 else 6)] * rank))


def chunks_in(grid: Sequence[int]) -> st.SearchStrategy[list[Chunk]]:
    """Single chunks, boxes of chunks, and all chunks."""
    every = list(product(*map(range, grid)))
    if not every:
        return st.just([])
    box = st.tuples(st.sampled_from(every), st.sampled_from(every)).map(
        lambda corners: [
            chunk
            for chunk in every
            if all(low <= at <= high for low, at, high in zip(corners[0], chunk, corners[1], strict=True))
        ]
    )
    return st.one_of(st.just([]), st.lists(st.sampled_from(every), max_size=4, unique=True), box, st.just(every))


def changes_of(draw: st.DrawFn, array: Kept, fresh: Iterator[int]) -> ArrayPlacement:
    grid = array.grid
    if draw(st.integers(0, 3)) == 0:
        grid = tuple(draw(st.integers(0, extent + 2)) for extent in array.grid)
    written = {chunk: (b"n" * 12, next(fresh), 1) for chunk in draw(chunks_in(grid))}
    removed = [chunk for chunk in draw(chunks_in(array.grid)) if chunk not in written]
    return array.change(grid, written, removed)


def go_on(draw: st.DrawFn, repository: Repository) -> None:
    """Some commits, each with a check."""
    fresh = count(10)
    for _ in range(draw(st.integers(1, 10))):
        kept = draw(st.lists(st.sampled_from(repository.arrays), unique=True, min_size=1))
        placed = repository.commit(kept, [changes_of(draw, array, fresh) for array in kept])
        for array in repository.arrays:
            repository.check(array)
        for array in kept:
            repository.check_list(array, {name for name, _ in placed.files})


@pytest.mark.parametrize("freedoms", [False, True])
@search(slowness=3)
@given(st.data())
def test_histories(freedoms: bool, data: st.DataObject) -> None:
    grids = data.draw(st.lists(chunk_grids, min_size=1, max_size=3))
    arrays = [Kept(node, len(grid), grid) for node, grid in enumerate(grids)]
    go_on(data.draw, Repository(arrays, freedoms=freedoms, trusted=freedoms, limit=data.draw(limits)))


foreign_extents = st.sampled_from(
    [(), ((0, 0), (1, 1)), ((0,), (5,), (3,)), ((0, 0), (1, 0)), ((2, 2), (1, 1), (1,)), ((0, 0), (0, 0), (2,))]
)


@pytest.mark.parametrize(("freedoms", "trusted"), [(False, False), (True, False), (True, True)])
@search(slowness=3)
@given(st.data())
def test_histories_that_go_on_from_what_others_wrote(freedoms: bool, trusted: bool, data: st.DataObject) -> None:
    draw = data.draw
    arrays = [Kept(node, 2, (6, 6)) for node in range(draw(st.integers(1, 2)))]
    repository = Repository(arrays, freedoms=freedoms, trusted=trusted, limit=draw(limits))
    inside = st.tuples(st.integers(0, 7), st.integers(0, 7))  # and slightly outside of the grid
    for _ in range(draw(st.integers(1, 5))):
        models = [draw(st.dictionaries(inside, payloads, max_size=20)) for _ in arrays]
        parts = [manifest_of(array.node, model, 2) for array, model in zip(arrays, models, strict=True)]
        wrong = [manifest_of(node, {(0,) * rank: b"wrong"}, rank) for node in (0, GONE) for rank in (0, 1, 3)]
        name = next(repository.ids)
        repository.files[name] = together(*parts, *draw(st.lists(st.sampled_from([*wrong, *wrong]), max_size=3)))
        for array, model in zip(arrays, models, strict=True):
            array.model = {**model, **array.model}
            array.manifests += (ManifestReference(name, draw(foreign_extents)),)
            if draw(st.integers(0, 4)) == 0:
                array.manifests += array.manifests[:1]
    for array in arrays:
        repository.check(array)
    if trusted:  # at least one of them has extents that are not ours, so all are checked
        for array in arrays:
            array.manifests += (ManifestReference(name, ()),)
    go_on_with_all(draw, repository)
    go_on(draw, repository)


def go_on_with_all(draw: st.DrawFn, repository: Repository) -> None:
    fresh = count(10)
    placed = repository.commit(repository.arrays, [changes_of(draw, array, fresh) for array in repository.arrays])
    for array in repository.arrays:
        repository.check(array)
        repository.check_list(array, {name for name, _ in placed.files})


# --- costs ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scattered", [False, True])
def test_rewriting_is_bounded(scattered: bool) -> None:
    array = Kept(1, 2, (40, 40))
    repository = Repository([array], freedoms=True, trusted=True)
    random = np.random.default_rng(1)
    small = large = 0
    number = 300
    for at in range(number):
        chunk = tuple(random.integers(0, 40, 2).tolist()) if scattered else divmod(at, 40)
        placed = repository.commit([array], [array.change((40, 40), {chunk: (b"n" * 12, at, 1)}, [])])
        for _, manifest in placed.files:
            small += manifest.size * (manifest.size < HALF)
            large += manifest.size * (manifest.size >= HALF)
    repository.check(array)
    assert small <= number * (1 + TIER) * (2 + log(HALF, TIER))
    assert large <= number / HALF * (len(array.model) if scattered else 2 * LIMIT)


def big_array(grid: tuple[int, ...], rows: int) -> tuple[ArrayPlacement, dict[ObjectId, Manifest]]:
    """An array whose first chunks were committed, and its files."""
    chunks = np.stack(np.unravel_index(np.arange(rows), grid), axis=1).astype(np.int64)
    written = manifest_of(1, {}, len(grid))._replace(
        nodes=np.full(rows, 1, np.uint32),
        starts=np.arange(rows + 1) * len(grid),
        coordinates=chunks.reshape(-1),
        kinds=np.ones(rows, np.uint8),
        ids=np.zeros((rows, 12), np.uint8),
        offsets=np.arange(rows),
        lengths=np.arange(rows),
        locations=np.full(rows, -1, np.int32),
    )
    none = np.zeros((0, len(grid)), np.int64)
    ids = fresh_ids()
    first = ArrayPlacement(1, len(grid), grid, (), written, none, "/a")
    placed = Placing([first], freedoms=True, trusted=True).place({}, lambda _: next(ids))
    assert all(manifest.size <= SPLIT for _, manifest in placed.files)
    return first._replace(manifests=placed.references[0], written=manifest_of(1, {}, len(grid))), dict(placed.files)


def test_one_more_reference_loads_no_manifest() -> None:
    base, _ = big_array((120, 1000), 100_000)
    assert len(base.manifests) == 7
    for chunk in ((110, 3), (5, 5)):
        change = base._replace(written=manifest_of(1, {chunk: b"x"}, 2))
        assert Placing([change], freedoms=True, trusted=True).needed() == []
        placed = Placing([change], freedoms=True, trusted=True).place({}, lambda _: b"n" * 12)
        assert [manifest.size for _, manifest in placed.files] == [1]
        assert placed.references[0][1:] == base.manifests
        assert placed.unlisted == frozenset()


def test_a_shrunk_grid_drops_manifests_outside_unread() -> None:
    base, files = big_array((100, 1000), 100_000)
    ids = [reference.id for reference in base.manifests]
    change = base._replace(grid=(10, 1000))
    (needed,) = Placing([change], freedoms=True, trusted=True).needed()
    assert needed == ids[0]
    placed = Placing([change], freedoms=True, trusted=True).place({needed: files[needed]}, lambda _: b"n" * 12)
    assert [manifest.size for _, manifest in placed.files] == [10_000]
    assert placed.unlisted == {*ids}


def test_manifests_that_are_overwritten_are_dropped_unread() -> None:
    base, files = big_array((100, 1000), 100_000)
    assert Placing([base], freedoms=True, trusted=True).needed() == []
    boxes = [read_extents(reference.extents, 2) for reference in base.manifests]
    box = boxes[3]
    assert box is not None
    rows = range(box.first[0], box.last[0] + 1)
    covering = dict.fromkeys(product(rows, range(1000)), b"")
    change = base._replace(written=manifest_of(1, covering, 2))
    needed = Placing([change], freedoms=True, trusted=True).needed()
    neighbours = [base.manifests[at].id for at in (2, 4)]
    assert needed == neighbours
    ids = fresh_ids()
    loaded = {name: files[name] for name in needed}
    placed = Placing([change], freedoms=True, trusted=True).place(loaded, lambda _: next(ids))
    assert base.manifests[3].id in placed.unlisted
    every = base._replace(written=manifest_of(1, dict.fromkeys(product(range(2), range(3)), b""), 2), grid=(2, 3))
    for freedoms in (True, False):
        assert Placing([every], freedoms=freedoms, trusted=False).needed() == []


def test_small_results_share_a_file() -> None:
    changes = [
        Kept(node, 1, (100,)).change((100,), {(at,): b"x" for at in range(rows)}, [])
        for node, rows in ((7, 3), (2, 3), (5, 6), (3, 2), (4, 1))
    ]
    ids = fresh_ids()
    placed = Placing(changes, freedoms=True, trusted=True, split=LIMIT).place({}, lambda _: next(ids))
    nodes = sorted(sorted({*manifest.nodes.tolist()}) for _, manifest in placed.files)
    assert nodes == [[2, 3, 4], [5], [7]]
    for change, references in zip(changes, placed.references, strict=True):
        (reference,) = references
        rows, _ = rows_of_array(dict(placed.files)[reference.id], change.node, 1)
        assert reference.extents == ((0,), (rows.size - 1,), (rows.size,))


def test_of_overlays_that_are_merged_the_newest_counts() -> None:
    array = Kept(1, 1, (1000,))
    repository = Repository([array], freedoms=True, trusted=True, limit=SPLIT)
    for chunks in (range(40), range(5), range(1), range(900, 903)):  # the last merges two with the same chunk
        written = {(at,): (b"n" * 12, len(chunks), 1) for at in chunks}
        before = len(array.manifests)
        repository.commit([array], [array.change((1000,), written, [])])
        repository.check(array)
    assert (before, len(array.manifests)) == (3, 2)


def test_parts_near_what_is_merged_are_merged_too() -> None:
    """Even if the commit itself has no references near them."""
    array = Kept(1, 1, (1000,))
    repository = Repository([array], freedoms=True, trusted=True)
    for chunks in (range(100, 120), (105, 111, 300), (500, 501)):
        written = {(at,): (b"n" * 12, chunks[0], 1) for at in chunks}
        placed = repository.commit([array], [array.change((1000,), written, [])])
        repository.check(array)
        repository.check_list(array, {name for name, _ in placed.files})
    assert len(placed.unlisted) > 1


# --- refusals --------------------------------------------------------------------------------------------------------------------------


def test_missing_manifests_are_requested() -> None:
    base, _ = big_array((100, 1000), 1000)
    removal = base._replace(removed=np.array([[0, 5]]))
    with pytest.raises(InvalidInputError, match="not loaded") as error:
        Placing([removal], freedoms=True, trusted=True).place({}, lambda _: b"n" * 12)
    assert error.value.path == "/a"
    with pytest.raises(InvalidInputError, match="not loaded"):
        Placing([base], freedoms=False, trusted=True).place({}, lambda _: b"n" * 12)


@pytest.mark.parametrize(
    ("node", "chunk", "removed"), [(1, (3, 0), 2), (2, (0, 0), 2), (1, (0,), 2), (1, (0, 0, 0), 2), (1, (0, 0), 1)]
)
def test_references_that_are_not_the_arrays(node: int, chunk: Chunk, removed: int) -> None:
    written = manifest_of(node, {chunk: b"x"}, len(chunk))
    change = ArrayPlacement(1, 2, (3, 3), (), written, np.zeros((0, removed), np.int64), "/a")
    with pytest.raises(InvalidInputError) as error:
        Placing([change], freedoms=True, trusted=True).needed()
    assert error.value.path == "/a"
