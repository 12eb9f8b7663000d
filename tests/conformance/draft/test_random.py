"""Random arrays of both dialects: written and read here, and in the older dialect in turns with zarr-python 2.18."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil.codecs import Blosc, Bytes, Codec, Gzip, Transpose, Zlib, Zstd
from frazil.stores import MemoryStore
from tests.conformance.draft.documents import document
from tests.conformance.draft.test_zarr2 import OTHERS, PLAIN, STRUCT, agree, filled
from tests.conformance.draft.zarr2 import Zarr2
from tests.strategies import basic_selections, same

STRICT_MEMBERS = {
    "shape",
    "data_type",
    "chunk_grid",
    "chunk_memory_layout",
    "fill_value",
    "extensions",
    "attributes",
    "codecs",
    "storage_transformers",
}
OLD_MEMBERS = (STRICT_MEMBERS - {"codecs"}) | {"compressor"}

Box = Sequence[tuple[int, int]]
blosc = st.builds(
    Blosc,
    cname=st.sampled_from(["blosclz", "lz4", "lz4hc", "zlib", "zstd"]),
    clevel=st.integers(0, 9),
    shuffle=st.sampled_from(["noshuffle", "shuffle", "bitshuffle"]),
)
compressors: Mapping[str, st.SearchStrategy[Codec]] = {
    "draft": st.builds(Gzip, level=st.integers(0, 9)) | blosc,
    "draft-2021": st.one_of(
        st.builds(Gzip, level=st.integers(0, 9)),
        st.builds(Zlib, level=st.integers(0, 9)),
        st.builds(Zstd, level=st.integers(-5, 9)),
        blosc,
    ),
}


class Drawn(NamedTuple):
    """arguments: of create_array besides dialect, dtype and shape; writes: boxes with values, in order"""

    shape: tuple[int, ...]
    dtype: object
    arguments: Mapping[str, object]
    writes: Sequence[tuple[Box, np.ndarray]]

    @property
    def expected(self) -> np.ndarray:
        values = np.zeros(self.shape, self.dtype)
        if self.dtype.kind in "mM":
            values[...] = "NaT"
        for box, part in self.writes:
            values[inside(box)] = part
        return values


def inside(box: Box) -> tuple[slice, ...]:
    return tuple(slice(*ends) for ends in box)


@st.composite
def drawn(draw: st.DrawFn, dialect: str) -> Drawn:
    """Features of the dialect: layouts C and F, both byte orders, shards, up to two codecs."""
    rank = draw(st.integers(0, 3))
    shape = tuple(draw(st.integers(0, 9)) for _ in range(rank))
    chunks = tuple(draw(st.integers(1, 4)) for _ in range(rank))
    dtype = draw(st.sampled_from([*PLAIN, *OTHERS, STRUCT]))
    big = draw(st.booleans()) and np.dtype(dtype).kind not in "SV" and np.dtype(dtype).itemsize > 1
    order = [Transpose(tuple(range(rank))[::-1])] if draw(st.booleans()) else []
    arguments: dict[str, object] = {
        "chunks": chunks,
        "shards": tuple(n * draw(st.integers(1, 3)) for n in chunks) if draw(st.booleans()) else None,
        "codecs": [*order, *([Bytes("big")] if big else []), *draw(st.lists(compressors[dialect], max_size=2))],
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": draw(st.sampled_from("./"))}},
        "attributes": {"n": draw(st.integers())},
    }
    writes = []
    for turn in range(draw(st.integers(0, 4))):
        box = [tuple(sorted((draw(st.integers(0, n)), draw(st.integers(0, n))))) for n in shape]
        part = filled([stop - start for start, stop in box], dtype, draw(st.integers(0, 2**32)) + turn)
        if part.size:
            writes.append((box, part))
    return Drawn(shape, np.dtype(dtype), arguments, writes)


def created(store: object, case: Drawn, dialect: str) -> frazil.Array:
    dtype = "r24" if case.dtype == "V3" else case.dtype
    return frazil.create_array(store, path="g/a", shape=case.shape, dtype=dtype, zarr_format=dialect, **case.arguments)


@pytest.mark.rule("D17", "D25", "D30", "D31", "D49", "D84", "D85")
@pytest.mark.parametrize(
    ("dialect", "members", "key"),
    [("draft", STRICT_MEMBERS, "meta/g/a.array.json"), ("draft-2021", OLD_MEMBERS, "meta/root/g/a.array.json")],
)
@given(st.data())
def test_random_arrays_round_trip(dialect: str, members: set[str], key: str, data: st.DataObject) -> None:
    case = data.draw(drawn(dialect))
    store = MemoryStore()
    array = created(store, case, dialect)
    for box, part in case.writes:
        array[inside(box)] = part
    assert set(document(store, key)) <= members
    again = frazil.open_array(store, path="g/a")
    assert (again.chunks, again.shards, again.dtype) == (array.chunks, array.shards, case.dtype)
    assert agree(np.asarray(again[...], case.dtype), case.expected)
    if case.dtype.kind not in "US":  # a scalar of text has its own dtype
        selection = data.draw(basic_selections(case.shape))
        assert same(np.asarray(again[selection]), np.asarray(case.expected[selection]))


@pytest.mark.rule("Z16")
@given(drawn("draft-2021"), st.booleans())
def test_zarr_python_reads_and_writes_them_by_turns(zarr2: Zarr2, case: Drawn, ours: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "h.zr3"
        array = created(store, case, "draft-2021")
        for turn, (box, part) in enumerate(case.writes):
            if (turn % 2 == 0) == ours:
                array[inside(box)] = part
            else:
                zarr2.write(store, "g/a", part, box)
        assert agree(zarr2.read(store, "g/a"), case.expected)
        assert agree(np.asarray(frazil.open_array(store, path="g/a")[...], case.dtype), case.expected)
