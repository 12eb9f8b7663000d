"""Putting shards together from the innermost level outwards: new inner chunks, those carried over from the old shard, and the index.

Everything here is columns over bytes that are already encoded. Publishing is in write.py, the layout of one shard in codecs/shard.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from frazil import _kernel
from frazil.array.access import Access, failure
from frazil.array.io.chunk_regions import Gathering, Region
from frazil.array.io.shard_lookup import Keyed, Step, Units, found_spans
from frazil.codecs.codec import BytesToBytes, run_encode
from frazil.codecs.inner_order import inner_ranks
from frazil.codecs.shard import encode_indexes, lay_out, merge
from frazil.errors import FrazilError, InvalidInputError
from frazil.record import Record
from frazil.stores.values import Columns, Pieces

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NEW = 2**62  # sorts behind every place in an old shard


class Shards(Record):
    """present: bool[m], False for a shard without any inner chunk; pieces: of those that are present, in order."""

    present: NDArray[np.bool_]
    pieces: Pieces


class Carried(Record):
    """Inner chunks of a step that stay as they are: the group of each, its number there, its place in the old shard, and its row."""

    group: Columns
    number: Columns
    start: Columns
    rows: Columns


class Kept(Record):
    """Encoded bytes that a write keeps.

    old      rows of the chunks that it keeps a part of, a row a unit (MISSING: nothing there); None where there is none at all
    carried  for each step
    """

    old: Columns | None
    carried: list[Carried]


def keep(steps: list[Step], spans: Columns, gathering: Gathering) -> Kept:
    """Fetches what a write keeps, in one round for all levels that lie in one region. spans: int64[n, 3], of the chunks that units keep a part of
    in the last step's region, start < 0 for none."""
    wanted = [(steps[-1].region, spans)]
    entries = []
    for depth, step in enumerate(steps):
        group, number = _untouched(step, *touched(steps, depth))
        found = step.entries(group, number)
        entries.append((group, number, found[:, 0]))
        wanted.append((step.region, found_spans(step, group, found)))
    rows = _fetched(wanted, gathering)
    carried = [Carried(*of_step, of_rows) for of_step, of_rows in zip(entries, rows[1:], strict=True)]
    return Kept(rows[0] if (spans[:, 1] >= 0).any() else None, carried)


def touched(steps: list[Step], depth: int) -> tuple[Columns, Columns]:
    """Group and number of each inner chunk of a step that a write makes anew."""
    if depth + 1 == len(steps):
        return steps[depth].group, steps[depth].number
    parent = steps[depth + 1].parent
    return parent[:, 0], parent[:, 1]


def _untouched(step: Step, group: Columns, number: Columns) -> tuple[Columns, Columns]:
    """Group and number of each inner chunk that is there and not among those given."""
    stays = step.tables[:, :, 0] >= 0
    slot = step.slot[group]
    stays[slot[slot >= 0], number[slot >= 0]] = False
    slots, numbers = np.nonzero(stays)
    of_slot = np.flatnonzero(step.slot >= 0)
    of_slot = of_slot[np.argsort(step.slot[of_slot], kind="stable")]
    return of_slot[slots], numbers


def _fetched(wanted: list[tuple[Region, Columns]], gathering: Gathering) -> list[Columns]:
    """Rows in `gathering` of each part, asked of each region once."""
    rows = [np.zeros((0, 3), np.int64)] * len(wanted)
    regions = {id(region): region for region, _ in wanted}
    for identity, region in regions.items():
        parts = [i for i, (other, _) in enumerate(wanted) if id(other) == identity]
        spans = np.concatenate([wanted[i][1] for i in parts])
        if (spans[:, 1] >= 0).any():
            fetched = gathering.add(*region.rows(spans))
            ends = np.cumsum([len(wanted[i][1]) for i in parts])[:-1]
            for i, part in zip(parts, np.split(fetched, ends), strict=True):
                rows[i] = part
    return rows


class Call(Record):
    """What the functions below share. units, keyed: for errors, of the write and of its shards. order: int64[n], which rises with the order in which the units were
    written; None: that is their own."""

    access: Access
    steps: list[Step]
    units: Units
    keyed: Keyed
    gathering: Gathering
    order: Columns | None = None

    def place(self, depth: int, group: int) -> tuple[str | None, tuple[int, ...]]:
        """The key of a group's object, and coordinates of a chunk in the group (of the shard itself, where it is the outermost)."""
        owner = self.steps[-1].group
        for step in reversed(self.steps[depth + 1 :]):
            owner = step.parent[owner, 0]
        chunk = self.units.chunks(np.flatnonzero(owner == group)[:1])[0].tolist()
        if depth == 0:
            chunk = [at // count for at, count in zip(chunk, self.access.chain.leaf_counts, strict=True)]
        return self.keyed.key(int(self.steps[depth].origin[group])), tuple(chunk)

    def name(self, error: FrazilError, depth: int, group: int) -> None:
        """Puts into an error what is known of its place."""
        (error.key, error.chunk), error.path = self.place(depth, group), self.access.path or "/"


def outer_values(call: Call, values: Columns, kept: Kept) -> Columns:
    """int64[n, 3], the inner chunks of the outermost shards that a write makes anew: the leaf chunks themselves, or the shards that they lie in. values: as in `assemble`."""
    for depth in reversed(range(1, len(call.access.chain.levels))):
        values = _joined(call, depth, _assemble_level(call, depth, values, kept.carried[depth]))
    return values


def assemble(call: Call, values: Columns, kept: Kept) -> Shards:
    """The shards of the outermost step. values: int64[n, 3], the leaf chunks of the units in the call's gathering, length -1 for an empty one."""
    levels = call.access.chain.levels
    values = outer_values(call, values, kept)
    shards = _assemble_level(call, 0, values, kept.carried[0])
    if levels[0].addressable:
        return shards
    rows = np.ascontiguousarray(_joined(call, 0, shards)[shards.present])
    return Shards(shards.present, Pieces(call.gathering.sources, rows, np.arange(len(rows) + 1, dtype=np.int64)))


def _assemble_level(call: Call, depth: int, values: Columns, carried: Carried) -> Shards:
    """The groups of a step, each with its index among its pieces."""
    levels, step = call.access.chain.levels, call.steps[depth]
    level = levels[depth]
    group, number = touched(call.steps, depth)
    order = call.order if depth + 1 == len(levels) else None
    keys = None if order is None else order + _NEW
    if len(step.tables):
        before = step.entries(group, number)[:, 0]
        keys = np.concatenate((carried.start, np.where(before < 0, _NEW, before) if keys is None else keys))
        group, number = np.concatenate((carried.group, group)), np.concatenate((carried.number, number))
        values = np.concatenate((carried.rows, values))
    if call.access.options.inner_order != "written":
        keys = inner_ranks(level, call.access.options.inner_order)[number]
    layout = lay_out(level, len(step.slot), group, number, values, keys)
    counts = np.bincount(layout.group, minlength=len(step.slot))
    present = counts > 0
    data = _indexes(call, depth, layout.tables, present)
    blob, shards, nbytes = call.gathering.add_buffer(data.reshape(-1)), len(data), level.index_codecs.nbytes
    offsets = np.concatenate(([0], np.cumsum(counts[present] + 1)))
    rows = np.empty((len(layout.rows) + shards, 3), np.int64)
    is_index = np.zeros(len(rows), np.bool_)
    is_index[offsets[1:] - 1 if level.at_end else offsets[:-1]] = True
    rows[~is_index] = layout.rows
    rows[is_index] = np.stack((np.full(shards, blob), np.arange(shards) * nbytes, np.full(shards, nbytes)), axis=1)
    return Shards(present, Pieces(call.gathering.sources, *merge(rows, offsets)))


def _indexes(call: Call, depth: int, tables: Columns, present: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """The encoded indexes of the groups that are present."""
    groups = np.flatnonzero(present)
    tables = tables if len(groups) == len(tables) else tables[groups]
    return encode_indexes(
        call.access.chain.levels[depth], tables, lambda error, i: call.name(error, depth, int(groups[i]))
    )


def _joined(call: Call, depth: int, shards: Shards) -> Columns:
    """Shards one after the other in one buffer, or with the codecs around them done: int64[m, 3] rows, length -1 where there is none."""
    level, gathering, threads = call.access.chain.levels[depth], call.gathering, call.access.runtime.threads
    rows = shards.pieces.rows
    ends = np.concatenate(([0], np.cumsum(rows[:, 2])))
    data = np.empty(int(ends[-1]), np.uint8)
    files, buffers = gathering.sources
    for _, code, text in _kernel.read_rows(files, buffers, rows, data, ends, threads):
        raise failure(call.access, code, text, None, None)
    bounds = ends[shards.pieces.offsets]
    joined = np.full((len(shards.present), 3), -1, np.int64)
    if not level.after:
        starts, sizes = bounds[:-1], np.diff(bounds)
        joined[shards.present] = np.stack((np.full(len(sizes), gathering.add_buffer(data)), starts, sizes), axis=1)
        return joined
    groups = np.flatnonzero(shards.present).tolist()
    parts = [data[low:high] for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)]
    for group, value in zip(groups, _encoded(call, depth, groups, parts), strict=True):
        joined[group] = gathering.add_buffer(value), 0, len(value)
    return joined


def _encoded(
    call: Call, depth: int, groups: list[int], shards: Sequence[NDArray[np.uint8]]
) -> Sequence[bytes | _kernel.Segment]:
    """Shards with the codecs around them done: those of Python's one after the other, then the kernel's for all shards at once."""
    after = call.access.chain.levels[depth].after
    forms = [codec.native() for codec in after]
    last = len(forms) - next((i for i, form in enumerate(reversed(forms)) if form is None), len(forms))
    values: Sequence[bytes | NDArray[np.uint8]] = shards
    if last:
        values = [
            _around(call, after[:last], shard.tobytes(), depth, group)
            for group, shard in zip(groups, shards, strict=True)
        ]
    native = [form for form in forms[last:] if form is not None]
    try:
        return _kernel.encode_bytes(native, values, call.access.runtime.threads)
    except ValueError as error:
        raise InvalidInputError(f"a shard could not be encoded: {error}", path=call.access.path or "/") from error


def _around(call: Call, codecs: Sequence[BytesToBytes], data: bytes, depth: int, group: int) -> bytes:
    try:
        for codec in codecs:
            data = run_encode(codec, data)
    except FrazilError as error:
        call.name(error, depth, group)
        raise
    return data
