"""Conversions from and to buckets of a running server that are interrupted: what was moved is neither requested nor put again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.servers.buckets import S3

import frazil
from frazil.codecs import Bytes, Gzip
from frazil.stores import LocalStore, MemoryStore, Store
from frazil.testing import CountingStore

VALUES = np.random.default_rng(5).integers(0, 2**16, (60, 70), np.uint16)


class Stop(BaseException):
    """An interrupt."""


def stop(_: int) -> None:
    raise Stop


def moved(store: Store, operation: str) -> set[str]:
    """The keys of chunks of a bucket that were read or put."""
    requests = store.requests if isinstance(store, CountingStore) else []
    return {done.key for done in requests if done.operation == operation and done.key[-1].isdigit()}


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("route", ["to a bucket", "from a bucket", "between buckets"])
def test_a_resumed_conversion_moves_the_rest(tmp_path: Path, s3: S3, route: str, sharded: bool) -> None:
    """Only the indexes and inner chunks of shards in a bucket, whose form changes, are read again, and put again into a folder."""
    source: Store = LocalStore(tmp_path / "source") if route == "to a bucket" else CountingStore(s3.store())
    target: Store = LocalStore(tmp_path / "target") if route == "from a bucket" else CountingStore(s3.store())
    shape: dict[str, object] = {"chunks": (5, 5), "shards": (10, 10)} if sharded else {"chunks": (10, 10)}
    root = frazil.create_group(source)
    array = root.create_array("a", data=VALUES, codecs=[Bytes("little"), Gzip(1)], **shape)  # type: ignore[arg-type]
    runtime = frazil.Runtime(bytes_in_flight=5000)
    with pytest.raises(Stop):
        frazil.convert(source, target, zarr_format="draft", progress=stop, runtime=runtime)
    before = len([key for key in target.list() if key[-1].isdigit()])
    assert 0 < before < 42
    array[0, 0] += 1
    for store in (source, target):
        if isinstance(store, CountingStore):
            store.clear()
    done = frazil.convert(source, target, zarr_format="draft", runtime=runtime)
    reads_all = sharded and route != "to a bucket"
    found = 0 if sharded and route == "from a bucket" else before - 1
    assert (done.objects, sum(array.found for array in done.arrays)) == (42, found)
    if route != "from a bucket":
        assert len(moved(target, "put")) == 42 - found
    if route != "to a bucket":
        assert len(moved(source, "fetch")) == (42 if reads_all else 42 - found)
    whole = MemoryStore()
    frazil.convert(source, whole, zarr_format="draft")
    assert {key: target.get(key) for key in target.list()} == {key: whole.get(key) for key in whole.list()}
