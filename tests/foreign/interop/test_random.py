"""Random arrays exchanged with zarr-python, zarrs and tensorstore, bit for bit; cases that a peer cannot do are skipped (refusals.py)."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import frazil
from tests.foreign.interop.cases import from_layout
from tests.foreign.interop.peers import PEERS, Peer, version
from tests.foreign.interop.refusals import refusal
from tests.strategies import Layout, basic_selections, layouts, same, values

FILLS: Mapping[str, tuple[object, ...]] = {
    "bool": (False, True),
    "int8": (0, -7),
    "uint16": (0, 65535),
    "int32": (0, -1),
    "uint64": (0, 2**63),
    "float16": (0.0, "NaN", "Infinity"),
    "float32": (0.0, 0.1, "-Infinity"),
    "float64": (-0.0, "NaN"),
    "complex64": ([0.0, 0.0], ["NaN", 1.0]),
    "complex128": ([0.0, -0.0], [0.1, "Infinity"]),
}
dtypes_and_fills = st.sampled_from([(dtype, fill) for dtype, fills in FILLS.items() for fill in fills])
parts = st.integers(0, 3)


@pytest.mark.parametrize("peer", PEERS, ids=[peer.name for peer in PEERS])
@settings(max_examples=settings().max_examples // 2)  # each is a dozen exchanges
@given(layouts(), dtypes_and_fills, st.integers(0, 2**32), st.booleans(), st.data())
def test_random_arrays(
    peer: Peer, layout: Layout, of: tuple[str, object], seed: int, whole: bool, data: st.DataObject
) -> None:
    """Theirs, written by them and in part by us, and ours, written by us and in part by them."""
    case = from_layout(layout, of[0], fill=of[1])
    for doing in ("create", "write", "read"):
        assume(refusal(peer.name, version(peer), case, doing) is None)
    writes = []
    for turn in range(3):
        box = tuple(slice(*sorted((data.draw(st.integers(0, n)), data.draw(st.integers(0, n))))) for n in case.shape)
        part = (...,) if whole and not turn else box
        writes.append((part, values(seed + turn, np.empty(case.shape)[part].shape, case.numpy_dtype)))
    with tempfile.TemporaryDirectory() as folder:
        for ours in (True, False):
            path = Path(folder) / f"{ours}"
            if ours:
                array = frazil.create_array(path, **case.arguments())
            else:
                peer.create(path, case)
                array = frazil.open_array(path, mode="r+")
            expected = np.full(case.shape, case.fill_scalar)
            for turn, (part, new) in enumerate(writes):
                expected[part] = new
                if ours == (turn % 2 == 0):
                    array[part] = new
                elif new.size:
                    peer.write(path, part, new)
            assert same(array[...], expected)
            assert same(peer.read(path), expected)
            selection = data.draw(basic_selections(case.shape))
            assert same(frazil.open_array(path)[selection], expected[selection])
