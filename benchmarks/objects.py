"""Compares reading and writing in object storage: one S3 server on this machine with one sharded cube, engines in turns, every result checked.

    python benchmarks/objects.py [--delay 20] [--before ../before/src] [--server .servers/bin/versitygw] [--repeat 5] [--size 512] [--json out.json]

Run it with the Python of the peers' environment (it needs numpy, obstore, zarr, tensorstore); frazil is imported from src/, and `frazil_before` from the src/
of another commit that --before names (with its kernel built). Each engine runs in its own process. All plain engines read the same objects, which frazil wrote;
`frazil_repo` reads the same values from a repository in the bucket, and icechunk from its own repository. Each plain engine writes to its own cube. Timing
begins when the array is open. With --delay a proxy delays each request by this many milliseconds."""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import s3_server
from s3_server import BUCKET, KEY, SECRET

HERE = Path(__file__).parent
REPOSITORIES = ("frazil_repo", "icechunk")
ENGINES = ("frazil", "frazil_before", "frazil_repo", "zarr", "tensorstore", "icechunk")
INNER = 32
LINE = "{:<46} {:<14} {:>10} {:>10} {:>10}"

Box = list[list[int]]  # start and end along each dimension


def values(size: int) -> np.ndarray:
    """Smooth, with noise in the low bits: it compresses about as well as measured fields."""
    axis = np.linspace(0, 12, size)
    smooth = np.sin(axis)[:, None, None] + np.cos(axis)[None, :, None] + np.sin(axis / 2)[None, None, :]
    noise = np.random.default_rng(1).integers(0, 16, (size,) * 3, dtype=np.uint16)
    return (smooth * 8000 + 24000).astype(np.uint16) + noise


def row_names(size: int, delay: float) -> dict[str, str]:
    """The rows of a run: what they measure -> name."""
    suffix = f"{size}^3 in S3{f', {delay:g} ms a request' if delay else ''}"
    return {
        part: f"{suffix}: {part}"
        for part in ("read all", "random inner chunks", "column", "write a part of each shard")
    }


def rows_of(size: int, delay: float, count: int) -> dict[str, tuple[str, list[Box]]]:
    """Name -> (read or write, boxes)."""
    picked, names = random.Random(7), row_names(size, delay)
    places = [[picked.randrange(size // INNER) * INNER for _ in range(3)] for _ in range(count)]
    middle = [size // 2 - size // 10, size // 2 + size // 8]
    return {
        names["read all"]: ("read", [[[0, size]] * 3]),
        names["random inner chunks"]: ("read", [[[at, at + INNER] for at in position] for position in places]),
        names["column"]: ("read", [[[0, size], [INNER, 2 * INNER], [INNER, 2 * INNER]]]),
        names["write a part of each shard"]: ("write", [[middle] * 3]),
    }


# --- one engine in its process -------------------------------------------------------------------------------------------------------------


def frazil_store(endpoint: str, prefix: str) -> Any:
    from frazil.stores import ObjectStore

    return ObjectStore(f"s3://{BUCKET}/{prefix}", **s3_server.frazil_options(endpoint))


def opened(engine: str, endpoint: str, *, write: bool = False) -> Any:
    prefix = f"own/{engine}" if write else "plain"
    if engine in {"frazil", "frazil_before"}:
        import frazil

        return frazil.open_array(frazil_store(endpoint, prefix), mode="r+" if write else "r")
    if engine == "frazil_repo":
        import frazil

        return frazil.Repository.open(frazil_store(endpoint, "repo")).readonly_session("main").root["data"]
    if engine == "zarr":
        import zarr
        from obstore.store import S3Store
        from zarr.storage import ObjectStore

        client = S3Store(
            BUCKET,
            prefix=prefix,
            endpoint=endpoint,
            access_key_id=KEY,
            secret_access_key=SECRET,
            client_options={"allow_http": True},
        )
        return zarr.open_array(ObjectStore(client, read_only=not write), mode="r+" if write else "r")
    if engine == "icechunk":
        import icechunk
        import zarr

        repo = icechunk.Repository.open(ice_storage(endpoint))
        return zarr.open_array(repo.readonly_session("main").store, path="data", mode="r")
    import tensorstore as ts

    os.environ |= {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
    location = {
        "driver": "s3",
        "bucket": BUCKET,
        "path": f"{prefix}/",
        "endpoint": endpoint,
        "aws_region": "us-east-1",
        "aws_credentials": {"type": "environment"},
    }
    context = ts.Context({"cache_pool": {"total_bytes_limit": 0}})
    return ts.open({"driver": "zarr3", "kvstore": location}, read=True, write=write, context=context).result()


def ice_storage(endpoint: str) -> Any:
    import icechunk

    return icechunk.s3_storage(
        bucket=BUCKET,
        prefix="ice",
        endpoint_url=endpoint,
        access_key_id=KEY,
        secret_access_key=SECRET,
        region="us-east-1",
        allow_http=True,
        force_path_style=True,
    )


def read(engine: str, array: Any, box: tuple[slice, ...]) -> np.ndarray:
    found = array[box]
    return np.asarray(found.read().result() if engine == "tensorstore" else found)


def write(engine: str, array: Any, box: tuple[slice, ...], source: np.ndarray) -> None:
    if engine == "tensorstore":
        array[box].write(source).result()
    else:
        array[box] = source


class Work:
    """Executes one line of the driver."""

    def __init__(self, engine: str, endpoint: str, size: int) -> None:
        self.engine, self.endpoint, self.truth, self.own = engine, endpoint, values(size), values(size)
        self.array: Any = None

    def read(self, boxes: list[tuple[slice, ...]]) -> dict[str, float]:
        if len(boxes) == 1 or self.array is None:
            self.array = opened(self.engine, self.endpoint)
        started, cpu = time.perf_counter(), time.process_time()
        found = [read(self.engine, self.array, box) for box in boxes]
        took = {"s": time.perf_counter() - started, "cpu s": time.process_time() - cpu}
        wrong = sum(int((block != self.truth[box]).sum()) for block, box in zip(found, boxes, strict=True))
        return {"wrong": wrong} if wrong else took

    def write(self, boxes: list[tuple[slice, ...]]) -> dict[str, float]:
        """Different values each time. Afterwards the written part and its surroundings are read back, untimed."""
        array = opened(self.engine, self.endpoint, write=True)
        for box in boxes:
            self.own[box] ^= 1
        started, cpu = time.perf_counter(), time.process_time()
        for box in boxes:
            write(self.engine, array, box, self.own[box])
        took = {"s": time.perf_counter() - started, "cpu s": time.process_time() - cpu}
        again, wrong = opened(self.engine, self.endpoint, write=True), 0
        for box in boxes:
            around = tuple(slice(max(part.start - INNER, 0), part.stop + INNER) for part in box)
            wrong += int((read(self.engine, again, around) != self.own[around]).sum())
        return {"wrong": wrong} if wrong else took


def worker(engine: str, endpoint: str, size: int) -> None:
    """Answers lines of JSON: ["read" or "write", boxes]."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    work = Work(engine, endpoint, size)
    for line in sys.stdin:
        act, document = json.loads(line)
        boxes = [tuple(slice(*part) for part in box) for box in document]
        try:
            reply: dict[str, Any] = getattr(work, act)(boxes)
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {str(error)[:200]}"}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def fill(endpoint: str, size: int, engines: list[str]) -> None:
    import frazil

    cube = values(size)
    layout: dict[str, Any] = {
        "shape": cube.shape,
        "dtype": "uint16",
        "chunks": (INNER,) * 3,
        "shards": (size // 2,) * 3,
    }
    codecs = [{"name": "zstd", "configuration": {"level": 0, "checksum": False}}]
    for prefix in ("plain", *(f"own/{engine}" for engine in engines if engine not in REPOSITORIES)):
        frazil.create_array(frazil_store(endpoint, prefix), codecs=codecs, fill_value=0, **layout)[...] = cube
    repo = frazil.Repository.create(frazil_store(endpoint, "repo"))
    with repo.transaction("main", message="all") as root:
        root.create_array("data", codecs=codecs, fill_value=0, **layout)[...] = cube
    if "icechunk" in engines:
        import icechunk
        import zarr

        session = icechunk.Repository.create(ice_storage(endpoint)).writable_session("main")
        zarr.create_array(session.store, name="data", compressors=codecs, fill_value=0, **layout)[...] = cube
        session.commit("all")


# --- the driver ----------------------------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=Path, default=s3_server.SERVER)
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--count", type=int, default=50, help="random inner chunks of one round")
    parser.add_argument("--delay", type=float, default=0, help="milliseconds that each request is held back")
    parser.add_argument("--rows", default="", help="a part of the names of the rows to measure (default: all)")
    parser.add_argument("--before", type=Path, help="src/ of another commit, as the engine frazil_before")
    parser.add_argument("--json", type=Path, help="write everything measured to this file, as compare.py does")
    parser.add_argument("--scratch", type=Path, help="a folder for the server's data")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--fill", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker[0], options.worker[1], options.size)
        return
    engines = [name for name in options.engines.split(",") if name != "frazil_before" or options.before]
    if options.fill:
        fill(options.fill, options.size, engines)
        return
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="frazil-objects-", dir=options.scratch))
        direct = stack.enter_context(s3_server.serving(Path(scratch) / "data", options.server))
        endpoint = stack.enter_context(s3_server.delayed(direct, options.delay / 1e3)) if options.delay else direct
        rows = compare(direct, endpoint, engines, options)
    load = os.getloadavg()[0]
    print(f"load average {load:.1f}")
    if options.json:
        kinds = {name: {"kind": "repository" if name in REPOSITORIES else "plain"} for name in engines}
        report = {"quick": False, "repeat": options.repeat, "load after": load, "engines": kinds, "rows": rows}
        options.json.write_text(json.dumps(report, indent=1))


def compare(direct: str, endpoint: str, engines: list[str], options: argparse.Namespace) -> list[dict[str, Any]]:
    command = [sys.executable, __file__, "--size", str(options.size), "--engines", ",".join(engines)]
    before = ["--before", str(options.before)] if options.before else []
    source = HERE.parent / "src"
    subprocess.run([*command, *before, "--fill", direct], check=True, env=environment(source))
    workers = {
        name: subprocess.Popen(
            [*command, "--worker", name, endpoint],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(options.before if name == "frazil_before" else source),
        )
        for name in engines
    }
    results: list[dict[str, Any]] = []
    print(LINE.format("row", "engine", "seconds", "cpu", "frazil is"))
    try:
        for title, (act, boxes) in rows_of(options.size, options.delay, options.count).items():
            if options.rows not in title:
                continue
            able = [name for name in engines if act == "read" or name not in REPOSITORIES]
            samples = measure(title, {name: workers[name] for name in able}, [act, boxes], options.repeat, results)
            show(title, samples)
            results += lines_of(title, samples)
    finally:
        for process in workers.values():
            process.kill()
            process.wait()
    return results


def environment(source: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(source.resolve()), **s3_server.NO_PROXY}


Samples = dict[str, list[dict[str, float]]]  # engine -> seconds of each round


def measure(
    title: str, workers: dict[str, subprocess.Popen[str]], question: list[Any], repeat: int, results: list[Any]
) -> Samples:
    """Runs the engines in another order in each round. An engine that fails is left out of later rounds, with a line in results."""
    samples: Samples = {name: [] for name in workers}
    shuffled = random.Random(title)
    for turn in range(repeat + 1):
        for name in shuffled.sample(list(samples), len(samples)):
            process = workers[name]
            assert process.stdin and process.stdout
            process.stdin.write(json.dumps(question) + "\n")
            process.stdin.flush()
            reply = json.loads(process.stdout.readline())
            if "s" not in reply:
                print(f"{title}: {name}: {reply}")
                results.append({"row": title, "engine": name, "error": str(reply.get("error", f"WRONG: {reply}"))})
                del samples[name]
            elif turn:  # the first warms up connections
                samples[name].append(reply)
    return samples


def show(title: str, samples: Samples) -> None:
    own = [sample["s"] for sample in samples.get("frazil", [])]
    for name, found in samples.items():
        seconds = [sample["s"] for sample in found]
        ratio = median(theirs / ours for theirs, ours in zip(seconds, own, strict=True)) if own else 0.0
        cpu = median(sample["cpu s"] for sample in found)
        print(LINE.format(title, name, f"{median(seconds):.4f}", f"{cpu:.4f}", f"{ratio:.2f} x"))


def lines_of(title: str, samples: Samples) -> Iterable[dict[str, Any]]:
    """Format as in the report of compare.py; ratio: to the best plain peer."""
    for metric in ("s", "cpu s"):
        found = {name: [sample[metric] for sample in rounds] for name, rounds in samples.items()}
        peers = [values for name, values in found.items() if not name.startswith("frazil") and name not in REPOSITORIES]
        best = min(peers, key=median) if peers else None
        for name, own in found.items():
            ratio = None if best is None else median(theirs / ours for theirs, ours in zip(best, own, strict=True))
            numbers = {"min": min(own), "median": median(own), "ratio": ratio, "samples": own}
            yield {"row": title, "metric": metric, "engine": name, **numbers}


if __name__ == "__main__":
    main()
