"""Compares reading from object storage: one S3 server on this machine, the same sharded cube in it, engines in turns, every result checked.

    python benchmarks/objects.py [--server .servers/bin/versitygw] [--repeat 5] [--size 512] [--json out.json]

Run it with the Python of the peers' environment (it needs numpy, obstore, zarr, tensorstore); frazil is taken from src/. Each engine lives in a process of its own. All plain engines read
the same objects, which frazil wrote; `frazil_repo` reads the same values from a repository in the bucket, and icechunk from one of its own. What is timed begins with an open array."""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

HERE = Path(__file__).parent
ENGINES = ("frazil", "frazil_repo", "zarr", "tensorstore", "icechunk")
KEY, SECRET, BUCKET = "test", "testtest", "bench-bucket"
LINE = "{:<26} {:<14} {:>10} {:>10} {:>10}"


def values(size: int) -> np.ndarray:
    """Smooth, with noise in the low bits: it compresses about as measured fields do."""
    axis = np.linspace(0, 12, size)
    smooth = np.sin(axis)[:, None, None] + np.cos(axis)[None, :, None] + np.sin(axis / 2)[None, None, :]
    noise = np.random.default_rng(1).integers(0, 16, (size,) * 3, dtype=np.uint16)
    return (smooth * 8000 + 24000).astype(np.uint16) + noise


# --- one engine in its process -------------------------------------------------------------------------------------------------------------


def frazil_store(endpoint: str, prefix: str) -> Any:
    from frazil.stores import ObjectStore

    return ObjectStore(f"s3://{BUCKET}/{prefix}", endpoint=endpoint, access_key_id=KEY, secret_access_key=SECRET)


def opened(engine: str, endpoint: str) -> Any:
    if engine == "frazil":
        import frazil

        return frazil.open_array(frazil_store(endpoint, "plain"))
    if engine == "frazil_repo":
        import frazil

        return frazil.Repository.open(frazil_store(endpoint, "repo")).readonly_session("main").root["data"]
    if engine == "zarr":
        import zarr
        from obstore.store import S3Store
        from zarr.storage import ObjectStore

        client = S3Store(
            BUCKET,
            prefix="plain",
            endpoint=endpoint,
            access_key_id=KEY,
            secret_access_key=SECRET,
            client_options={"allow_http": True},
        )
        return zarr.open_array(ObjectStore(client, read_only=True), mode="r")
    if engine == "icechunk":
        import icechunk
        import zarr

        repo = icechunk.Repository.open(ice_storage(endpoint))
        return zarr.open_array(repo.readonly_session("main").store, path="data", mode="r")
    import tensorstore as ts

    os.environ |= {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
    place = {
        "driver": "s3",
        "bucket": BUCKET,
        "path": "plain/",
        "endpoint": endpoint,
        "aws_region": "us-east-1",
        "aws_credentials": {"type": "environment"},
    }
    context = ts.Context({"cache_pool": {"total_bytes_limit": 0}})
    return ts.open({"driver": "zarr3", "kvstore": place}, read=True, context=context).result()


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


def worker(engine: str, endpoint: str, size: int) -> None:
    """Answers lines of JSON: {"boxes": [...]} is read, timed and checked."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    truth, array = values(size), None
    for line in sys.stdin:
        boxes = [tuple(slice(*part) for part in box) for box in json.loads(line)]
        try:
            array = opened(engine, endpoint) if len(boxes) == 1 or array is None else array
            started, cpu = time.perf_counter(), time.process_time()
            found = [read(engine, array, box) for box in boxes]
            took = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - cpu}
            wrong = sum(int((one != truth[box]).sum()) for one, box in zip(found, boxes, strict=True))
            reply: dict[str, Any] = {"wrong": wrong} if wrong else took
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
        "chunks": (32,) * 3,
        "shards": (size // 2,) * 3,
    }
    codecs = [{"name": "zstd", "configuration": {"level": 0, "checksum": False}}]
    frazil.create_array(frazil_store(endpoint, "plain"), codecs=codecs, fill_value=0, **layout)[...] = cube
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


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def start(server: Path, folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    (folder / BUCKET).mkdir(parents=True)
    port = free_port()
    process = subprocess.Popen(
        [str(server), "--port", f"127.0.0.1:{port}", "--quiet", "--keep-alive", "posix", str(folder)],
        env={**os.environ, "ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET},
        stdout=subprocess.DEVNULL,
    )
    for _ in range(200):
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return process, f"http://127.0.0.1:{port}"
        time.sleep(0.05)
    raise SystemExit("the server did not start")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=Path, default=HERE.parent / ".servers/bin/versitygw")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--count", type=int, default=50, help="random inner chunks of one round")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--fill", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker[0], options.worker[1], options.size)
        return
    engines = options.engines.split(",")
    if options.fill:
        fill(options.fill, options.size, engines)
        return
    with tempfile.TemporaryDirectory(prefix="frazil-objects-") as scratch:
        server, endpoint = start(options.server, Path(scratch) / "data")
        try:
            results = compare(endpoint, engines, options)
        finally:
            server.kill()
    print(f"load average {os.getloadavg()[0]:.1f}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


def compare(endpoint: str, engines: list[str], options: argparse.Namespace) -> dict[str, Any]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(HERE.parent / "src"),
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }
    command = [sys.executable, __file__, "--size", str(options.size), "--engines", ",".join(engines)]
    subprocess.run([*command, "--fill", endpoint], check=True, env=environment)
    workers = {
        name: subprocess.Popen(
            [*command, "--worker", name, endpoint],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for name in engines
    }
    size, picked = options.size, random.Random(7)
    places = [[picked.randrange(size // 32) * 32 for _ in range(3)] for _ in range(options.count)]
    rows = {
        f"{size}^3 read all": [[[0, size]] * 3],
        f"{size}^3 random inner chunks": [[[at, at + 32] for at in place] for place in places],
    }
    results: dict[str, Any] = {}
    print(LINE.format("row", "engine", "seconds", "cpu", "frazil is"))
    for title, boxes in rows.items():
        samples: dict[str, list[dict[str, float]]] = {name: [] for name in engines}
        for turn in range(options.repeat + 1):
            for name in picked.sample(engines, len(engines)):
                process = workers[name]
                assert process.stdin and process.stdout
                process.stdin.write(json.dumps(boxes) + "\n")
                process.stdin.flush()
                reply = json.loads(process.stdout.readline())
                if "seconds" not in reply:
                    print(f"{title}: {name}: {reply}")
                elif turn:  # the first warms up connections
                    samples[name].append(reply)
        own = [one["seconds"] for one in samples.get("frazil", [])]
        for name, found in samples.items():
            if found:
                seconds = [one["seconds"] for one in found]
                ratio = median(theirs / ours for theirs, ours in zip(seconds, own, strict=False)) if own else 0.0
                cpu = median(one["cpu"] for one in found)
                print(LINE.format(title, name, f"{median(seconds):.4f}", f"{cpu:.4f}", f"{ratio:.2f} x"))
        results[title] = samples
    for process in workers.values():
        process.kill()
    return results


if __name__ == "__main__":
    main()
