"""Ctrl-C in large reads and writes: KeyboardInterrupt is raised before all work is done, and the array can be read again.

The tests compare the amount of work after the signal, not its time, which means nothing on a busy machine: benchmarks/interrupts.py measures the time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import frazil

SHARD, SHARDS = 2**25, 320  # bytes: 10 GiB
STEP = 4096  # the result has one element of this many, so that little memory is touched
PROGRAM = f"""
import json, os, signal, sys, threading, time
import numpy as np
import frazil

signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests run with the signal ignored
array = frazil.open_array(sys.argv[1])
out = np.full({SHARD * SHARDS // STEP}, 99, "u1")
told = {{}}

def decoded():
    return int(np.count_nonzero(out != 99)) * {STEP}

def interrupt():
    while out[len(out) // 16] == 99:
        time.sleep(0.0005)
    told["before"], told["sent"] = decoded(), time.perf_counter()
    os.kill(os.getpid(), signal.SIGINT)

thread = threading.Thread(target=interrupt, daemon=True)
try:
    thread.start()
    array.read(slice(None, None, {STEP}), out=out)
    told["after"] = None
except KeyboardInterrupt:
    told["seconds"], told["after"] = time.perf_counter() - told.pop("sent"), decoded()
    told["again"] = array[:3].tolist()
print(json.dumps(told))
"""


@pytest.mark.parametrize("content", ["zeros", "noise"])
def test_a_read_of_10_gb_is_interrupted(content: str, tmp_path: Path) -> None:
    array = frazil.create_array(
        tmp_path / "a", shape=(SHARDS * SHARD,), dtype="u1", shards=(SHARD,), chunks=(2**20,), fill_value=255
    )
    part = np.zeros(SHARD, "u1")
    if content == "noise":
        part[:] = np.random.default_rng(1).integers(0, 16, SHARD, dtype="u1")
    array[:SHARD] = part  # stored, as this is not the fill value
    for number in range(1, SHARDS):
        os.link(tmp_path / "a" / "c" / "0", tmp_path / "a" / "c" / str(number))
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "a")], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr
    document = json.loads(run.stdout)
    assert document["after"] is not None, "the read was not interrupted"
    assert document["after"] - document["before"] < SHARDS * SHARD // 2  # generous: a call of the kernel decodes 64 MiB
    assert document["again"] == part[:3].tolist()
    print(
        f"{content}: {document['seconds']:.3f} s, {(document['after'] - document['before']) / 2**20:.0f} MiB after the signal"
    )


# The signal comes in the middle of one call of the kernel: at a decoded element, or an encoded chunk, long before the last.
CALL = """
import json, os, signal, sys, threading, time
from itertools import starmap
import numpy as np
from frazil import _kernel
import frazil
import frazil.array.io.write  # which is imported late, and imports what reads

signal.signal(signal.SIGINT, signal.default_int_handler)
array = frazil.open_array(sys.argv[1], mode="r+", runtime=frazil.Runtime(threads=1))  # so that a call takes long
interrupted = None

def interrupt(ended):
    if not ended.wait(0.02):  # the call has begun, and takes long
        os.kill(os.getpid(), signal.SIGINT)

class Watched:
    def __getattr__(self, name):
        function = getattr(_kernel, name)
        if name not in {"read_shards", "encode_chunks"}:
            return function
        def call(*arguments):
            global interrupted
            ended = threading.Event()
            threading.Thread(target=interrupt, args=[ended], daemon=True).start()
            answers = []
            try:
                answers.extend(starmap(function, [arguments]))  # no code of Python between the call and the answer
            except KeyboardInterrupt:
                interrupted = None if answers else name
                raise
            finally:
                ended.set()
            return answers[0]
        return call

for name, module in list(sys.modules.items()):
    if name.startswith("frazil.") and getattr(module, "_kernel", None) is _kernel:
        module._kernel = Watched()
try:
    run(array)
except KeyboardInterrupt:
    pass
print(json.dumps([interrupted, array[:3].tolist()]))
"""
RUNS = {
    "read_shards": "def run(array): array[::4096]",
    "read_shards of points": "def run(array): array.vindex[np.arange(0, array.shape[0], 4096)[::-1]]",
    "encode_chunks": "def run(array): array[:] = np.random.default_rng(2).integers(0, 16, array.shape, dtype='u1')",
}


@pytest.mark.parametrize("function", RUNS)
def test_a_call_of_the_kernel_ends_at_a_signal(function: str, tmp_path: Path) -> None:
    """Each call decodes or encodes 32 MiB by gzip with one thread. The call itself ends with an exception; the interpreter does not raise it after the call."""
    part = np.random.default_rng(1).integers(0, 16, 2**25, dtype="u1")
    array = frazil.create_array(
        tmp_path / "a",
        shape=part.shape,
        dtype="u1",
        shards=part.shape,
        chunks=(2**18,),
        codecs=[frazil.codecs.Gzip(level=9 if function == "encode_chunks" else 1)],
    )
    if function == "encode_chunks":
        array[:3] = part[:3]
    else:
        array[:] = part
    assert interrupted(function, tmp_path / "a") == [function.removesuffix(" of points"), part[:3].tolist()]


def test_a_chunk_that_takes_long_ends_at_a_signal(tmp_path: Path) -> None:
    """One chunk of zstd level 19 takes seconds."""
    array = frazil.create_array(
        tmp_path / "a", shape=(2**24,), dtype="u1", chunks=(2**24,), codecs=[frazil.codecs.Zstd(level=19)]
    )
    array[:3] = [1, 2, 3]
    assert interrupted("encode_chunks", tmp_path / "a") == ["encode_chunks", [1, 2, 3]]


def interrupted(function: str, path: Path) -> object:
    """The function of the kernel that ended, and the first elements afterwards."""
    run = subprocess.run(
        [sys.executable, "-c", RUNS[function] + CALL, str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)
