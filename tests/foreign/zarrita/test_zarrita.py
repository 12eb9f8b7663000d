"""zarrita.js under Node reads served data: plain and sharded arrays, groups, old snapshots; and gets errors for failures."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.codecs import Blosc, Bytes, Crc32c, Gzip, Transpose, Zstd
from frazil.operations.serve.server import serve
from frazil.stores import LocalStore, MemoryStore
from frazil.testing import CountingStore, Fault, FaultPlan, FaultyStore

SCRIPT = Path(__file__).parent / "read.mjs"
ZARRITA = Path(__file__).parents[3] / ".servers" / "node_modules" / "zarrita" / "dist" / "src" / "index.js"
NODE = shutil.which("node")

pytestmark = [
    pytest.mark.skipif(NODE is None, reason="Node is not installed"),
    pytest.mark.skipif(not ZARRITA.exists(), reason="zarrita.js is not installed in .servers/node_modules"),
]

SEA = np.random.default_rng(0).normal(10, 5, (50, 60)).astype(np.float32)
Selection = Sequence["int | list[int | None] | None"]


def job(url: str, path: str = "", selection: Selection | None = None, *, suffix: bool = True) -> dict[str, object]:
    return {"url": url, "path": path, "selection": selection, "suffix": suffix}


def read(*jobs: dict[str, object]) -> list[dict[str, object]]:
    """What zarrita reads, in one process."""
    done = subprocess.run(
        [str(NODE), str(SCRIPT), ZARRITA.resolve().as_uri(), json.dumps(jobs)],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    found = json.loads(done.stdout)
    assert isinstance(found, list)
    assert len(found) == len(jobs)
    return found


def values(found: dict[str, object]) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    assert "error" not in found, found
    return np.array(found["data"]).astype(str(found["dtype"])).reshape(found["shape"])  # type: ignore[arg-type]


def fill(root: frazil.Group) -> None:
    root.create_array("level1/plain", data=SEA, chunks=(16, 16), fill_value=float("nan"), attributes={"units": "m"})
    inner = [Bytes(), Zstd(3), Crc32c()]
    root.create_array("level1/sharded", data=SEA, chunks=(8, 8), shards=(32, 32), codecs=inner)
    counts = root.create_array("counts", shape=(20, 20), dtype="int64", chunks=(5, 5), shards=(10, 10), fill_value=7)
    counts[3:9, 3:9] = np.arange(36).reshape(6, 6) - 2**60


def test_a_folder(tmp_path: Path) -> None:
    root = frazil.create_group(tmp_path / "sea.zarr")
    fill(root)
    with serve(tmp_path / "sea.zarr") as server:
        plain, sharded, sized, counts, some, one = read(
            job(server.url, "level1/plain"),
            job(server.url, "level1/sharded"),
            job(server.url, "level1/sharded", suffix=False),
            job(server.url, "counts"),
            job(server.url, "level1/sharded", [[5, 45, 3], 30]),
            job(server.url + "level1/plain/", "", [[0, 2, None], [3, 5, None]]),
        )
    assert plain["attributes"] == {"units": "m"}
    for found in (plain, sharded, sized):
        np.testing.assert_array_equal(values(found), SEA)
    np.testing.assert_array_equal(values(counts), np.asarray(root["counts"][...]))  # type: ignore[call-overload, union-attr, index]
    np.testing.assert_array_equal(values(some), SEA[5:45:3, 30])
    np.testing.assert_array_equal(values(one), SEA[0:2, 3:5])


TEXT = np.array([f"n{chr(228)}me {i}" * (i % 4) for i in range(30)], np.dtypes.StringDType())


def fill_odd(root: frazil.Group) -> None:
    """Arrays of other byte orders, types and orders of dimensions."""
    big = [Bytes("big"), Zstd(3)]
    root.create_array("big", data=SEA.astype("f8"), chunks=(16, 16), codecs=big)
    root.create_array("big16", data=np.arange(-50, 50, dtype="i2").reshape(10, 10), chunks=(4, 4), codecs=big)
    root.create_array("text", data=TEXT, chunks=(7,), codecs=[Zstd(3)])
    root.create_array("flags", data=SEA > 10, chunks=(16, 16), codecs=[Gzip(5)])
    root.create_array("one", data=np.float32(3.5))
    turned = [Transpose((1, 0)), Bytes(), Blosc("lz4", 5, "shuffle")]
    root.create_array("turned", data=SEA, chunks=(8, 8), shards=(32, 32), codecs=turned)


ODD = ("big", "big16", "text", "flags", "one", "turned")


def check_all(url: str, root: frazil.Group, paths: Sequence[str]) -> None:
    jobs = [job(url, path, suffix=suffix) for suffix in (True, False) for path in paths]
    for request, found in zip(jobs, read(*jobs), strict=True):
        expected = np.asarray(root[str(request["path"])][...])  # type: ignore[call-overload, union-attr, index]
        assert "error" not in found, (request, found)
        got = np.array(found["data"]).reshape(found["shape"])  # type: ignore[arg-type]
        np.testing.assert_array_equal(got.astype(expected.dtype), expected, str(request))


def test_byte_orders_text_and_orders_of_dimensions(tmp_path: Path) -> None:
    root = frazil.create_group(tmp_path / "sea.zarr")
    fill_odd(root)
    with serve(tmp_path / "sea.zarr") as server:
        check_all(server.url, root, ODD)


def test_zarr_v2_with_consolidated_metadata(tmp_path: Path) -> None:
    location = tmp_path / "sea.zarr"
    root = frazil.create_group(location, zarr_format=2)
    root.create_array("level1/f", data=SEA, chunks=(16, 16), attributes={"units": "m"})
    root.create_array("big", data=SEA.astype(">f4"), chunks=(16, 16), compressors=[Zstd(1)])
    root.create_array("turned", data=SEA, chunks=(16, 16), order="F")
    root.create_array("text", data=TEXT, chunks=(7,))
    frazil.consolidate_metadata(location)
    with serve(location) as server:
        check_all(server.url, root, ("level1/f", "big", "turned", "text"))
        (found,) = read({**job(server.url), "list": True})
    assert {node["path"] for node in found["contents"]} == {"/", "/level1", "/level1/f", "/big", "/turned", "/text"}  # type: ignore[attr-defined]


def test_the_command_serves_a_tag(tmp_path: Path) -> None:
    location = tmp_path / "sea.repo"
    repo = frazil.Repository.create(location, durable=False)
    with repo.transaction(message="first") as root:
        fill_odd(root)
    repo.create_tag("v1", "main")
    with repo.transaction(message="second") as root:
        root["big"][:] = 0  # type: ignore[index]
    command = [sys.executable, "-m", "frazil", "serve", f"{location}@v1", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().split()[-1]
            check_all(url, repo.readonly_session(tag="v1").root, ODD)
        finally:
            server.terminate()


def test_a_group_is_listed(tmp_path: Path) -> None:
    fill(frazil.create_group(tmp_path / "sea.zarr"))
    with serve(tmp_path / "sea.zarr") as server:
        (found,) = read({**job(server.url), "list": True})
    contents = found["contents"]
    assert isinstance(contents, list)
    kinds = {node["path"]: node["kind"] for node in contents}
    assert kinds == {
        "/": "group",
        "/level1": "group",
        "/level1/plain": "array",
        "/level1/sharded": "array",
        "/counts": "array",
    }


def test_old_snapshots_of_a_repository(tmp_path: Path) -> None:
    repo = frazil.Repository.create(tmp_path / "sea.repo", durable=False)
    with repo.transaction(message="first") as root:
        fill(root)
    repo.create_tag("v1", "main")
    with repo.transaction(message="second") as root:
        root["level1/plain"][:] = 1  # type: ignore[index]
        root["level1/sharded"][:20] += 100  # type: ignore[index]
        del root["counts"]
    then, now = (repo.readonly_session(tag="v1").store, repo.readonly_session().store)
    with serve(then) as old, serve(now) as new:
        paths = ("level1/plain", "level1/sharded", "counts")
        found = read(*(job(server.url, path) for server in (old, new) for path in paths))
    for result in found[:2]:
        np.testing.assert_array_equal(values(result), SEA)
    counts = repo.readonly_session(tag="v1").root["counts"][...]  # type: ignore[index]
    np.testing.assert_array_equal(values(found[2]), np.asarray(counts))
    assert (values(found[3]) == 1).all()
    np.testing.assert_array_equal(values(found[4]), np.concatenate((SEA[:20] + np.float32(100), SEA[20:])))
    assert "error" in found[5]


def test_only_parts_of_a_shard_are_read() -> None:
    store = CountingStore(MemoryStore())
    data = np.random.default_rng(0).integers(0, 2**31, (256, 256), dtype=np.int32)
    frazil.create_array(store, data=data, chunks=(16, 16), shards=(256, 256))
    with serve(store) as server:
        store.clear()
        (found,) = read(job(server.url, "", [[20, 30, None], [20, 30, None]]))
    np.testing.assert_array_equal(values(found), data[20:30, 20:30])
    ranges = [request.nbytes for request in store.requests if request.key == "c/0/0"]
    assert len(ranges) == 2  # the index, and one inner chunk
    assert sum(ranges) < 256 * 256 * 4 / 16


def test_a_failing_store_is_no_fill_value(tmp_path: Path) -> None:
    frazil.create_array(tmp_path, data=SEA, chunks=(50, 60))
    failures: list[str] = []
    faulty = FaultyStore(LocalStore(tmp_path), FaultPlan([Fault("fetch", 2)]))
    with serve(faulty, tell=failures.append) as server:
        failed, again = read(job(server.url), job(server.url))
    assert "500" in str(failed["error"])
    assert len(failures) == 1
    np.testing.assert_array_equal(values(again), SEA)
