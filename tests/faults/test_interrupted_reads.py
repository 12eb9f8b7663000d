"""Ctrl-C in a read of 10 GB: KeyboardInterrupt is raised after what the kernel decodes in a call or two, and the array can be read again.

How much is decoded after the signal is compared, not how long that takes, which says nothing on a busy machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import frazil

SHARD, SHARDS = 2**27, 80  # bytes: 10 GiB
STEP = 4096  # the result has one element of so many, so that little memory is touched
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
    told = json.loads(run.stdout)
    assert told["after"] is not None, "the read was not interrupted"
    assert told["after"] - told["before"] < SHARDS * SHARD // 2  # generous: a call of the kernel decodes 64 MiB
    assert told["again"] == part[:3].tolist()
    print(f"{content}: {told['seconds']:.3f} s, {(told['after'] - told['before']) / 2**20:.0f} MiB after the signal")
