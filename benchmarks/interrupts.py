"""How long Ctrl-C takes in large reads and writes: seconds from the signal to KeyboardInterrupt, each in its own process.

    python benchmarks/interrupts.py [--kinds "read gzip,write zstd 19"] [--repeat 3] [--source ../before/src] [--json out.json]

Frazil alone, from src/ of this checkout or of another. The goal is 0.2 s. The signal comes half a second after the start of the operation; an operation that
has already ended is an error. S3 is a server on this machine (.servers, made by tools/servers)."""

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
from typing import Any

import s3_server

HERE = Path(__file__).parent
METRIC = "s from signal to exception"
SIDE = 2**20  # elements (bytes) of an inner chunk
SHARD = 2**26
FILLED = "import frazil, numpy as np, os, sys\nroot = sys.argv[1]\n"

# Prepared beforehand: an array of `shards` shards, all of them the same file.
ARRAY = """
def filled(shards, codecs, chunk=2**20, shard=2**26):
    array = frazil.create_array(root + "/a", shape=(shards * shard,), dtype="u1", chunks=(chunk,), shards=(shard,), codecs=codecs, fill_value=255)
    array[:shard] = np.random.default_rng(1).integers(0, 16, shard, dtype="u1")
    for number in range(1, shards):
        os.link(root + "/a/c/0", f"{root}/a/c/{number}")
"""
# Reads one element of this many, so that little memory is touched.
READ = "array = frazil.open_array(root + '/a')\nrun = lambda: array[::4096]"
POINTS = "array = frazil.open_array(root + '/a')\nat = np.random.default_rng(2).integers(0, array.shape[0], 2**18)\nrun = lambda: array.vindex[at]"
ORTHOGONAL = POINTS.replace("vindex[at]", "oindex[np.unique(at)]")


def write(codec: str, store: str = "root + '/b'", shard: str = "2**26") -> str:
    return f"""
values = np.random.default_rng(1).integers(0, 16, 2**30, dtype="u1")
array = frazil.create_array({store}, shape=values.shape, dtype="u1", chunks=(2**20,), shards=({shard},), codecs={codec}, fill_value=255)
def run(): array[...] = values
"""


STORE = "frazil.stores.ObjectStore('s3://bench-bucket/' + root.rpartition('/')[2], **json.loads(sys.argv[2]))"
REMOTE = f"""
import json
store = {STORE}
values = np.random.default_rng(1).integers(0, 16, 2**29, dtype="u1")
frazil.create_array(store, data=values, chunks=(2**20,), shards=(2**25,), codecs=[], fill_value=255)
"""
REMOTE_READ = f"import json\narray = frazil.open_array({STORE})\ndef run():\n    for _ in range(20): array[...]"
# kind: (what is prepared, what is interrupted)
KINDS = {
    "read zstd": (ARRAY + "filled(160, [frazil.codecs.Zstd()])", READ),
    "read gzip": (ARRAY + "filled(80, [frazil.codecs.Gzip(level=5)])", READ),
    "read blosc zlib": (
        ARRAY + "filled(80, [frazil.codecs.Blosc(cname='zlib', shuffle='noshuffle', typesize=1)])",
        READ,
    ),
    "read gzip, shards of 2^28 in one chunk of 2^24": (
        ARRAY + "filled(20, [frazil.codecs.Gzip(level=5)], 2**24, 2**28)",
        READ,
    ),
    "points of gzip": (ARRAY + "filled(80, [frazil.codecs.Gzip(level=5)])", POINTS),
    "orthogonal rows of gzip": (ARRAY + "filled(80, [frazil.codecs.Gzip(level=5)])", ORTHOGONAL),
    "write raw": ("", write("[]").replace("2**30", "2**31")),
    "write zstd 3": ("", write("[frazil.codecs.Zstd(level=3)]")),
    "write zstd 19": ("", write("[frazil.codecs.Zstd(level=19)]")),
    "write zstd 19, one chunk of 2^27": (
        "",
        write("[frazil.codecs.Zstd(level=19)]").replace("chunks=(2**20,), shards=(2**26,)", "chunks=(2**27,)"),
    ),
    "write gzip 9": ("", write("[frazil.codecs.Gzip(level=9)]")),
    "write zstd 19, shards of 2^28": ("", write("[frazil.codecs.Zstd(level=19)]", shard="2**28")),
    "read S3": (REMOTE, REMOTE_READ),
    "write S3": ("", "import json\n" + write("[]", STORE, "2**25")),
    "write S3 zstd 19": ("", "import json\n" + write("[frazil.codecs.Zstd(level=19)]", STORE, "2**25")),
    "rechunk gzip": (
        ARRAY + "filled(8, [frazil.codecs.Gzip(level=5)])",
        "run = lambda: frazil.rechunk(root + '/a', root + '/b', chunks=(2**21,), shards=(2**27,), codecs=[frazil.codecs.Gzip(level=5)], runtime=frazil.Runtime(bytes_in_flight=2**30))",
    ),
}
INTERRUPTED = """
import json, os, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)
sent = 0.0
def interrupt():
    global sent
    time.sleep(0.5)
    sent = time.perf_counter()
    os.kill(os.getpid(), signal.SIGINT)
thread = threading.Thread(target=interrupt, daemon=True)
thread.start()
try:
    run()
except KeyboardInterrupt:
    print(time.perf_counter() - sent)
"""


def seconds(kind: str, endpoint: str, source: Path) -> float:
    """Seconds of one interrupted operation. Raises SystemExit if it was not interrupted."""
    prepare, interrupted = KINDS[kind]
    printed = ""
    environment = {**os.environ, **s3_server.NO_PROXY, "PYTHONPATH": str(source)}
    with tempfile.TemporaryDirectory(prefix="frazil-interrupts-") as root:
        arguments = [root, json.dumps(s3_server.frazil_options(endpoint))]
        for program in (FILLED + prepare, FILLED + interrupted + INTERRUPTED):
            done = subprocess.run(
                [sys.executable, "-c", program, *arguments],
                capture_output=True,
                text=True,
                env=environment,
                check=False,
            )
            if done.returncode:
                raise SystemExit(f"{kind}: {done.stderr}")
            printed = done.stdout.strip()
    if not printed:
        raise SystemExit(f"{kind}: it was done before the signal")
    return float(printed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default=",".join(KINDS).replace(", ", "; "), help="comma-separated (%(default)s)")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--source", type=Path, default=HERE.parent / "src")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="frazil-interrupts-s3-")))
        endpoint = stack.enter_context(s3_server.serving(folder))
        for kind in [kind.replace("; ", ", ") for kind in options.kinds.split(",")]:
            samples = [seconds(kind, endpoint, options.source.resolve()) for _ in range(options.repeat)]
            print(
                f"{kind:<50} min {min(samples):.3f}  median {median(samples):.3f}  max {max(samples):.3f}", flush=True
            )
            numbers = {"min": min(samples), "median": median(samples), "ratio": None, "samples": samples}
            rows.append({"row": f"Ctrl-C: {kind}", "metric": METRIC, "engine": "frazil", **numbers})
    if options.json:
        options.json.write_text(json.dumps({"rows": rows}, indent=1))


if __name__ == "__main__":
    main()
