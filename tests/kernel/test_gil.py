"""The GIL: calls that take long release it, however few bytes they have."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest

from frazil import _kernel
from frazil.codecs import Blosc, Gdeflate, Gzip, Zstd
from frazil.codecs.codec import NativeCodec

_SMOOTH = np.cumsum(np.random.default_rng(0).integers(-2, 3, 2048)).astype(np.int16).tobytes()


def _releases(call: Callable[[], object], calls: int = 50_000) -> bool:
    """Whether another thread runs during one of many calls, as no thread gets the GIL from one that keeps it. Many: a busy machine lets it wait."""
    interval, ran, ready = sys.getswitchinterval(), threading.Event(), threading.Lock()
    ready.acquire()

    def wait() -> None:
        with ready:
            ran.set()

    thread = threading.Thread(target=wait)
    thread.start()
    sys.setswitchinterval(1000)
    try:
        ready.release()
        for _ in range(calls):
            call()
            if ran.is_set():
                return True
        return False
    finally:
        sys.setswitchinterval(interval)
        thread.join()


def _encode(codec: NativeCodec, values: list[bytes]) -> Callable[[], object]:
    return lambda: _kernel.encode_bytes([codec], values, 1)


def _native(codec: Blosc | Zstd | Gzip | Gdeflate) -> NativeCodec:
    native = codec.native()
    assert native is not None
    return native


SLOW = {
    "zstd": Zstd(level=19),
    "blosc": Blosc(cname="zstd", clevel=9, shuffle="shuffle", typesize=2, blocksize=0),
    "gdeflate": Gdeflate(),
}


@pytest.mark.parametrize("name", SLOW)
def test_slow_encoders_release_it(name: str) -> None:
    codec = _native(SLOW[name])
    assert _releases(_encode(codec, [_SMOOTH]))


def test_calls_with_many_items_release_the_gil() -> None:
    """4000 values of one byte take milliseconds."""
    codec = _native(Gzip(level=1))
    assert _releases(_encode(codec, [b"a"] * 4000))
    program = _kernel.program((1,), 1, (0,), (), (codec,), b"\0")
    count, lengths = 4000, np.empty(4000, np.int64)
    index, entries = np.arange(count).reshape(-1, 1), np.column_stack((np.arange(count), np.ones(count, np.int64)))
    runs = np.column_stack((np.zeros(count, np.int64), np.ones((count, 2), np.int64), np.arange(count)))
    source, groups = np.ones(count, np.uint8), np.array([0, count])
    assert _releases(
        lambda: _kernel.encode_chunks(program, source, (index, entries, runs), None, groups, False, 1, lengths)
    )


def test_brief_calls_keep_the_gil() -> None:
    """Handing it over would take longer than the call."""
    assert not _releases(_encode(_native(Gzip(level=1)), [_SMOOTH[:64]]), 1000)


WITHOUT_IMPORTS = """
import collections.abc, operator
import numpy as np
from frazil import _kernel
del collections.abc.Sequence, collections.abc.Iterator, collections.abc.Mapping, operator.length_hint
program = _kernel.program((4,), 2, (0,), (), (("zstd", 1, False),), b"\\0\\0")
_kernel.shard_index((3,), (1,), True, 48, False, 0)
lengths, one, runs = np.empty(1, np.int64), np.array([0, 1]), np.array([(0, 4, 1, 0)])
elements = np.array([[0]]), np.array([(0, 1)]), runs
segments, _, _ = _kernel.encode_chunks(program, np.arange(4, dtype="u2"), elements, None, one, False, 1, lengths)
out = np.empty(4, np.uint16)
print(_kernel.decode_chunks(program, None, segments, np.array([(-1, 0, lengths[0])]), None, elements, out, 1), out.tolist())
"""


def test_calls_import_nothing() -> None:
    """The child of a fork would wait for ever for what another thread of its parent was importing."""
    run = subprocess.run([sys.executable, "-c", WITHOUT_IMPORTS], check=True, capture_output=True, text=True)
    assert (run.stdout.split(), run.stderr) == (["[]", "[0,", "1,", "2,", "3]"], "")
