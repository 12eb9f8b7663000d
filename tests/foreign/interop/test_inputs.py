"""Values in every memory layout of NumPy, written by us and read by the others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import frazil
from tests.conformance.shards import BIG, LITTLE, sharding
from tests.foreign.interop.cases import Case
from tests.foreign.interop.peers import PEERS, Peer
from tests.strategies import same, values

SHAPE = (11, 13)
RAW = values(5, SHAPE, np.dtype("u4"))


def strided(array: np.ndarray) -> np.ndarray:
    around = np.zeros((22, 39), array.dtype)[1::2, ::3]
    around[...] = array
    return around


INPUTS = {
    "C order": RAW,
    "F order": np.asfortranarray(RAW),
    "negative strides": RAW[::-1, ::-1],
    "every other": strided(RAW),
    "big-endian": RAW.astype(">u4"),
    "big-endian in F order": np.asfortranarray(RAW.astype(">u4")),
    "broadcast row": np.broadcast_to(RAW[:1], SHAPE),
    "broadcast column": np.broadcast_to(RAW[:, :1], SHAPE),
    "broadcast scalar": np.broadcast_to(RAW[3, 3], SHAPE),
    "fields of records": np.rec.fromarrays([RAW, RAW.astype("u1")], names="a,b")["a"],
    "unaligned": np.frombuffer(b"?" + RAW.tobytes(), "u4", offset=1).reshape(SHAPE),
    "read only": np.frombuffer(RAW.tobytes(), "u4").reshape(SHAPE),
}
CODECS = {"plain": [LITTLE], "sharded": [sharding([3, 2], [BIG])], "raw bytes": [sharding([6, 8], [LITTLE])]}


@pytest.mark.parametrize("peer", PEERS, ids=[peer.name for peer in PEERS])
@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("codecs", CODECS)
def test_inputs(peer: Peer, kind: str, codecs: str, tmp_path: Path) -> None:
    case = Case(kind, SHAPE, (6, 8), CODECS[codecs], "uint32")
    array = frazil.create_array(tmp_path / "a", **case.arguments())
    array[...] = INPUTS[kind]
    expected = INPUTS[kind].astype("u4").copy(order="C")
    assert same(peer.read(tmp_path / "a"), expected)
    array[2:9:3, 12:1:-4] = INPUTS[kind][2:9:3, 12:1:-4][::-1]
    expected[2:9:3, 12:1:-4] = INPUTS[kind][2:9:3, 12:1:-4][::-1]
    assert same(peer.read(tmp_path / "a"), expected)
    assert same(array[...], expected)
