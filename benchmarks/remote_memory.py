"""Measures the memory that reads, writes and copies on a remote store use beyond their result: 64 shards of 8 MiB in a real S3 server on this machine.

    python benchmarks/remote_memory.py [--repeat 3] [--in-flight 1,64] [--json out.json]

Frazil alone, from src/ of this checkout. Each call runs in a new process, whose high-water mark of resident memory (VmHWM) is read from outside of Python.
Measurement begins after a small read, when modules and the client are loaded; the result of a read is not counted. Every result is checked outside of the
measurement."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, cast

import numpy as np

import s3_server
from array_tasks import memory_kib

HERE = Path(__file__).parent
SHAPE, SHARD, INNER = (512, 512, 1024), (128, 128, 256), (32, 32, 32)  # uint16
SMALL = (16, 16, 16)
CODECS = [{"name": "zstd", "configuration": {"level": 0, "checksum": False}}]
CALLS = {
    "read all": "read_all",
    "read a column": "read_column",
    "write all": "write_all",
    "write a part of each shard": "write_part",
    "copy within the store": "copy_within",
    "copy to a folder": "copy_out",
    "copy from a folder": "copy_in",
    "rechunk": "rechunk",
    "rechunk to rows": "rechunk_rows",
    "verify a repository with decoding": "verify",
    "export to NetCDF4": "export_netcdf",
    "export a snapshot to a folder": "export_snapshot",
    "write and commit 65,536 chunks of 8 KiB": "commit_small",
}
LINE = "{:<44} {:>12} {:>20} {:>20}"


def row_name(call: str, in_flight: int) -> str:
    return f"64 shards of 8 MiB in S3, {in_flight} MiB in flight: {call}"


def values(turn: int = 0) -> np.ndarray:
    """Noise: an encoded shard is as large as a decoded one."""
    return np.random.default_rng(turn).integers(0, 2**16, SHAPE, dtype=np.uint16)


# --- one call in its process ---------------------------------------------------------------------------------------------------------------


class Calls:
    """Each returns the bytes of its result, which are not counted, and a function that checks the result."""

    def __init__(self, endpoint: str, folder: Path, in_flight: int) -> None:
        import frazil

        self.frazil, self.endpoint, self.folder = frazil, endpoint, folder
        self.runtime = frazil.Runtime(bytes_in_flight=in_flight << 20)

    def store(self, prefix: str) -> Any:
        return self.frazil.stores.ObjectStore(
            f"s3://{s3_server.BUCKET}/{prefix}", **s3_server.frazil_options(self.endpoint)
        )

    def create(self, location: Any) -> Any:
        return self.frazil.create_array(
            location,
            shape=SHAPE,
            dtype="uint16",
            chunks=INNER,
            shards=SHARD,
            codecs=CODECS,
            overwrite=True,
            runtime=self.runtime,
        )

    def fill(self) -> None:
        data = values()
        self.create(self.store("cube"))[...] = data
        self.create(self.folder / "cube")[...] = data
        with self.frazil.Repository.create(self.store("repo")).transaction(message="fill") as root:
            root.create_array("cube", data=data, chunks=INNER, shards=SHARD, codecs=CODECS)
        repo = self.frazil.Repository.create(self.store("small"))
        with repo.transaction(message="fill") as root:
            root.create_array("cube", shape=SHAPE, dtype="uint16", chunks=SMALL, codecs=CODECS)

    def measure(self, name: str) -> float:
        """The maximum of MiB that a call uses beyond its result."""
        self.array = self.frazil.open_array(self.store("cube"), mode="r+", runtime=self.runtime)
        _ = self.array[0, 0, 0]
        self.source = values(1) if name in ("write_all", "commit_small") else None
        self.repo = self.frazil.Repository.open(
            self.store("small" if name == "commit_small" else "repo"), runtime=self.runtime
        )
        if name in ("verify", "export_snapshot", "commit_small"):
            self.session = self.repo.writable_session()
            self.cube = cast("Any", self.session["cube"])
            _ = self.cube[0, 0, 0]
        if name == "export_netcdf":
            import h5py  # noqa: F401 # 11 MiB of code, which no other call loads
        self.out: Any = None
        Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
        before = memory_kib("VmRSS")
        getattr(self, name)()
        above = memory_kib("VmHWM") - before
        result = 0 if self.out is None else self.out.nbytes
        getattr(self, f"check_{name}")()
        return max(above / 1024 - result / 2**20, 0.0)

    def read_all(self) -> None:
        self.out = self.array[...]

    def check_read_all(self) -> None:
        assert np.array_equal(self.out, values())

    def read_column(self) -> None:
        self.out = self.array[:, 40:50, 40:50]

    def check_read_column(self) -> None:
        assert np.array_equal(self.out, values()[:, 40:50, 40:50])

    def write_all(self) -> None:
        self.created = self.create(self.store("new"))
        self.created[...] = self.source

    def check_write_all(self) -> None:
        assert np.array_equal(self.created[...], values(1))

    def write_part(self) -> None:
        """One plane across every shard: in each, one inner chunk of four along the axis is merged, the others are copied."""
        self.array[5::128, :, :] = 7

    def check_write_part(self) -> None:
        expected = values()
        expected[5::128] = 7
        assert np.array_equal(self.array[...], expected)
        self.array[5::128, :, :] = values()[5::128]

    def copy_within(self) -> None:
        self.frazil.copy(self.store("cube"), self.store("copied"), overwrite=True, runtime=self.runtime)

    def check_copy_within(self) -> None:
        assert np.array_equal(self.frazil.open_array(self.store("copied"))[...], values())

    def copy_out(self) -> None:
        self.frazil.copy(self.store("cube"), self.folder / "copied", overwrite=True, runtime=self.runtime)

    def check_copy_out(self) -> None:
        assert np.array_equal(self.frazil.open_array(self.folder / "copied")[...], values())

    def copy_in(self) -> None:
        self.frazil.copy(self.folder / "cube", self.store("copied"), overwrite=True, runtime=self.runtime)

    check_copy_in = check_copy_within

    def rechunk(self) -> None:
        if not hasattr(self.frazil, "rechunk"):
            raise NotImplementedError("not available: there is no frazil.rechunk")
        shards, target = (SHARD[0] * 2, SHARD[1], SHARD[2] // 2), self.store("rechunked")
        self.frazil.rechunk(
            self.store("cube"), target, chunks=INNER, shards=shards, overwrite=True, runtime=self.runtime
        )

    def check_rechunk(self) -> None:
        assert np.array_equal(self.frazil.open_array(self.store("rechunked"))[...], values())

    def rechunk_rows(self) -> None:
        self.frazil.rechunk(
            self.store("cube"), self.store("rechunked"), chunks=(1, *SHAPE[1:]), shards=None, overwrite=True,
            runtime=self.runtime,
        )  # fmt: skip

    check_rechunk_rows = check_rechunk

    def verify(self) -> None:
        self.done = self.repo.verify(decode=True)

    def check_verify(self) -> None:
        assert self.done.ok and self.done.decoded == 64

    def export_netcdf(self) -> None:
        self.frazil.export_file(self.array, self.folder / "cube.nc", overwrite=True, runtime=self.runtime)

    def check_export_netcdf(self) -> None:
        import h5py

        with h5py.File(self.folder / "cube.nc") as file:
            assert np.array_equal(file["cube"][...], values())

    def export_snapshot(self) -> None:
        self.frazil.export_file(self.session.root, self.folder / "snapshot.zarr", overwrite=True, runtime=self.runtime)

    def check_export_snapshot(self) -> None:
        assert np.array_equal(self.frazil.open_array(self.folder / "snapshot.zarr", path="cube")[...], values())

    def commit_small(self) -> None:
        self.cube[...] = self.source
        self.session.commit("small chunks")

    def check_commit_small(self) -> None:
        cube: Any = self.repo.readonly_session()["cube"]
        assert np.array_equal(cube[...], values(1))


def child(call: str, endpoint: str, folder: str, in_flight: int) -> None:
    """Prints a JSON object."""
    calls = Calls(endpoint, Path(folder), in_flight)
    try:
        if call == "fill":
            calls.fill()
            print("{}")
        else:
            print(json.dumps({"MiB beside the result": calls.measure(call)}))
    except NotImplementedError as error:
        print(json.dumps({"error": f"not possible: {error}"}))
    except Exception as error:
        print(json.dumps({"error": f"failed: {type(error).__name__}: {str(error)[:200]}"}))


# --- the driver ----------------------------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=Path, default=s3_server.SERVER)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--in-flight", default="1,64", help="MiB of bytes_in_flight, comma-separated (%(default)s)")
    parser.add_argument("--calls", default=",".join(CALLS.values()), help="comma-separated (%(default)s)")
    parser.add_argument("--json", type=Path, help="write everything measured to this file, as compare.py does")
    parser.add_argument("--scratch", type=Path, help="a folder with room for 3 GB")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        call, endpoint, folder, in_flight = options.child
        child(call, endpoint, folder, int(in_flight))
        return
    rows: list[dict[str, Any]] = []
    selected_calls = options.calls.split(",")
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="frazil-memory-", dir=options.scratch)))
        endpoint = stack.enter_context(s3_server.serving(scratch / "data", options.server))
        ask("fill", endpoint, scratch, 64)
        print(LINE.format("MiB beside the result", "in flight", "median", "most"))
        for in_flight in map(int, options.in_flight.split(",")):
            for name, call in CALLS.items():
                if call in selected_calls:
                    found = [ask(call, endpoint, scratch, in_flight) for _ in range(options.repeat)]
                    rows.append(line_of(row_name(name, in_flight), found))
                    error = rows[-1].get("error")
                    numbers = (error or f"{rows[-1]['median']:.1f}", "" if error else f"{max(rows[-1]['samples']):.1f}")
                    print(LINE.format(name, in_flight, *numbers), flush=True)
    if options.json:
        report = {"quick": False, "repeat": options.repeat, "engines": {"frazil": {"kind": "plain"}}, "rows": rows}
        options.json.write_text(json.dumps(report, indent=1))


def ask(call: str, endpoint: str, folder: Path, in_flight: int) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent / "src"), **s3_server.NO_PROXY}
    command = [sys.executable, __file__, "--child", call, endpoint, str(folder), str(in_flight)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    reply: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return reply


def line_of(row: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    """Format as in the report of compare.py."""
    failures = [sample["error"] for sample in found if "error" in sample]
    if failures:
        return {"row": row, "engine": "frazil", "error": failures[0]}
    metric = "MiB beside the result"
    samples = [sample[metric] for sample in found]
    numbers = {"min": min(samples), "median": median(samples), "ratio": None, "samples": samples}
    return {"row": row, "metric": metric, "engine": "frazil", **numbers}


if __name__ == "__main__":
    main()
