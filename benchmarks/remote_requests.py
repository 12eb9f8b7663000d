"""Counts the requests of commands that only list: `frazil info` and `frazil ls -l` of an array of many chunks in a real S3 server on this machine.

    python benchmarks/remote_requests.py [--chunks 100000] [--json out.json]

Frazil alone, from src/ of this checkout; each command is its own process. Requests of opening are counted separately (`frazil info` of an array without
chunks), and subtracted. A page of a listing in S3 has 1,000 keys."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

import s3_server

HERE = Path(__file__).parent
PAGE = 1000
METRIC = "requests a page"
LINE = "{:<44} {:>10} {:>18} {:>10}"
COMMANDS = {"info": ["info"], "ls -l": ["ls", "-l"], "ls -l of its keys": ["ls", "-l"]}


def row_name(chunks: int, command: str) -> str:
    return f"{chunks} chunks in S3: {command}"


def fill(endpoint: str, chunks: int) -> None:
    import frazil

    options = s3_server.frazil_options(endpoint)
    for prefix, written in (("many", chunks), ("none", 0)):
        store = frazil.stores.ObjectStore(f"s3://{s3_server.BUCKET}/{prefix}", **options)
        array = frazil.create_array(store, shape=(chunks,), dtype="uint8", chunks=(1,), codecs=[])
        array[:written] = np.ones(written, np.uint8)


def run(arguments: list[str], endpoint: str) -> tuple[int, str]:
    """The number of requests of a command, and its output."""
    source = str(HERE.parent / "src")
    environment = {**os.environ, "PYTHONPATH": source, **s3_server.environment(endpoint)}
    s3_server.requests_since(endpoint)
    command = [sys.executable, "-m", "frazil", *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return s3_server.requests_since(endpoint), done.stdout


def measure(endpoint: str, chunks: int) -> list[dict[str, Any]]:
    """Lines as in the report of compare.py."""
    url = f"s3://{s3_server.BUCKET}"
    opening = {name: run([*command, f"{url}/none"], endpoint)[0] for name, command in COMMANDS.items()}
    pages = -(-chunks // PAGE)
    rows: list[dict[str, Any]] = []
    print(LINE.format("row", "requests", METRIC, "seconds"))
    for name, command in COMMANDS.items():
        started = time.perf_counter()
        count, printed = run([*command, f"{url}/many/c" if name.endswith("keys") else f"{url}/many"], endpoint)
        seconds = time.perf_counter() - started
        value = (count - opening[name] + 1) / pages  # an array without chunks is listed, too: one page
        complete = printed.count("\n") >= chunks if name.endswith("keys") else str(chunks) in printed
        if not complete:
            rows.append({"row": row_name(chunks, name), "engine": "frazil", "error": f"WRONG: {printed[:80]}"})
            continue
        print(LINE.format(row_name(chunks, name), count, f"{value:.2f}", f"{seconds:.1f}"), flush=True)
        for metric, number in ((METRIC, value), ("requests", float(count)), ("s", seconds)):
            numbers = {"min": number, "median": number, "ratio": None, "samples": [number]}
            rows.append({"row": row_name(chunks, name), "metric": metric, "engine": "frazil", **numbers})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=Path, default=s3_server.SERVER)
    parser.add_argument("--chunks", type=int, default=2000, help="the target is for 100000 (%(default)s)")
    parser.add_argument("--json", type=Path, help="write everything measured to this file, as compare.py does")
    parser.add_argument("--scratch", type=Path, help="a folder for the server's data")
    parser.add_argument("--fill", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fill:
        fill(options.fill, options.chunks)
        return
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="frazil-requests-", dir=options.scratch))
        direct = stack.enter_context(s3_server.serving(Path(scratch) / "data", options.server))
        counted = stack.enter_context(s3_server.delayed(direct, 0))
        command = [sys.executable, __file__, "--chunks", str(options.chunks), "--fill", direct]
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent / "src"), **s3_server.NO_PROXY}
        subprocess.run(command, check=True, env=environment)
        rows = measure(counted, options.chunks)
    if options.json:
        report = {"quick": False, "repeat": 1, "engines": {"frazil": {"kind": "plain"}}, "rows": rows}
        options.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
