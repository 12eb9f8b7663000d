"""A real S3 server on this machine (versitygw), and a proxy in front of it that delays each request and counts the requests. This module does not know what is
measured."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SERVER = HERE.parent / ".servers/bin/versitygw"
KEY, SECRET, BUCKET = "test", "testtest", "bench-bucket"
NO_PROXY = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(folder: Path, server: Path = SERVER) -> Iterator[str]:
    """The endpoint of a server with one empty bucket (BUCKET), whose data is in `folder`."""
    (folder / BUCKET).mkdir(parents=True)
    port = free_port()
    process = subprocess.Popen(
        [str(server), "--port", f"127.0.0.1:{port}", "--quiet", "--keep-alive", "posix", str(folder)],
        env={**os.environ, "ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET},
        stdout=subprocess.DEVNULL,
    )
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        else:
            raise SystemExit("the server did not start")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@contextmanager
def delayed(endpoint: str, seconds: float) -> Iterator[str]:
    """Another endpoint of the same server, which delays each request by this many seconds."""
    command = [sys.executable, str(HERE / "delay_proxy.py"), endpoint.rpartition(":")[2], str(seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()


def requests_since(endpoint: str) -> int:
    """The number of requests to a delayed endpoint since the last such call."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return int(direct.open(f"{endpoint}/__count__").read())


def frazil_options(endpoint: str) -> dict[str, Any]:
    """The options of a frazil.stores.ObjectStore in the bucket."""
    return {"endpoint": endpoint, "access_key_id": KEY, "secret_access_key": SECRET}


def environment(endpoint: str) -> dict[str, str]:
    """The same as environment variables, for programs."""
    return {
        **NO_PROXY,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }
