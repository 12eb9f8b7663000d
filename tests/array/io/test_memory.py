"""The memory of reads and writes beyond their result on a remote store, measured from outside of Python: bytes_in_flight, or one task, plus a little."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.servers.buckets import S3

MEASURED = """
import json, re, sys
from pathlib import Path
import numpy as np
import frazil

def status(name):  # KiB
    return int(re.search(name + r":\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])

def beside(call):  # MiB that a call holds at most beside its result
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew
    before = status("VmRSS")
    found = call()
    return (status("VmHWM") - before) // 1024 - (0 if found is None else found.nbytes >> 20), found

url, limit = sys.argv[1], int(sys.argv[2])
runtime = frazil.Runtime(bytes_in_flight=limit)
shape, shards, chunks = (128, 512, 1024), (128, 128, 256), (32, 32, 32)
data = np.random.default_rng(0).integers(0, 2**16, shape, dtype=np.uint16)  # noise: as large encoded as decoded
small = frazil.create_array(url + "/small", shape=64, dtype="u2", chunks=8, shards=32, runtime=runtime)
small[1:] = 3
assert small[40] == 3
array = frazil.create_array(url + "/a", shape=shape, dtype="u2", chunks=chunks, shards=shards, codecs=["zstd"], runtime=runtime)
write, _ = beside(lambda: array.__setitem__(..., data))
part, _ = beside(lambda: array.__setitem__(slice(5, None, 128), 7))
data[5::128] = 7
read, found = beside(lambda: array[...])
assert np.array_equal(found, data)
print(json.dumps({"write": write, "part": part, "read": read}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has /proc/self/status")
@pytest.mark.parametrize("limit", [1, 64])
def test_memory_is_bounded_in_a_bucket(s3: S3, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    """16 shards of 8 MiB. A task of a write holds a shard twice: in pieces, and as one value."""
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    words = [sys.executable, "-c", MEASURED, f"s3://{s3.new_bucket()}", str(limit << 20)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["read"] <= max(limit, 8) + 32, found
    assert max(found["write"], found["part"]) <= max(limit, 16) + 32, found
