"""`frazil serve` as a program: its output, what it serves, how it ends. The server itself is tested in tests/operations."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import IncompleteRead
from pathlib import Path
from urllib.error import HTTPError

import numpy as np
import pytest
from tests.cli.conftest import SEA, TEMP
from tests.servers.buckets import S3

import frazil
from frazil.cli.commands.serve import COMMAND


@contextmanager
def serving(*arguments: str, signal_to_end: int = signal.SIGINT, ends: int = 0) -> Iterator[str]:
    """Runs `frazil serve` in its own process and yields its address. The program prints nothing else, and ends on request."""
    command = [sys.executable, "-m", "frazil", "serve", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            assert url.startswith("http://127.0.0.1:"), process.communicate()
            yield url
            process.send_signal(signal_to_end)
            assert process.communicate(timeout=60) == ("", "")
            assert process.returncode == ends
        finally:
            process.kill()


def shape(url: str) -> list[int]:
    with urllib.request.urlopen(url) as answer:
        found = json.load(answer)["shape"]
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("line", [line for line, _ in COMMAND.examples])
def test_examples_work(line: str, workdir: Path) -> None:
    arguments = shlex.split(line)[2:]
    path = "level1/temp/zarr.json"
    with serving(*arguments, *([] if "--port" in arguments else ["--port", "0"])) as url:
        assert shape(url + path) == list(TEMP.shape)


def test_a_branch_stays_where_it_was_unless_it_is_followed(workdir: Path) -> None:
    repo = frazil.Repository.open("sea.repo", durable=False)
    with serving("sea.repo", "--port", "0") as fixed, serving("sea.repo/", "--follow", "--port=0") as followed:
        assert shape(fixed + "salt/zarr.json") == shape(followed + "salt/zarr.json") == [4]
        with repo.transaction(message="more") as root:
            root["salt"].append(np.arange(2))  # type: ignore[union-attr]
        assert shape(fixed + "salt/zarr.json") == [4]
        for _ in range(1000):
            if shape(followed + "salt/zarr.json") == [6]:
                break
            time.sleep(0.02)
        assert shape(followed + "salt/zarr.json") == [6]


def test_a_path_in_a_repository(workdir: Path) -> None:
    for location in ("sea.repo@v1/level1", "sea.repo/level1"):
        with serving(location, "--port", "0") as url:
            assert shape(url + "temp/zarr.json") == list(TEMP.shape)
    with serving("sea.repo/", "--port", "0") as url:
        with pytest.raises(HTTPError, match="404") as missing:
            urllib.request.urlopen(url + "temp/zarr.json")
        missing.value.close()


def test_virtual_chunks_are_served_where_that_is_allowed(workdir: Path) -> None:
    (workdir / "data").mkdir()
    raw = np.arange(4, dtype="<i4").tobytes()
    (workdir / "data" / "raw").write_bytes(raw)
    prefix = f"file://{workdir.resolve()}/data/"
    session = frazil.Repository.open("sea.repo", virtual_prefixes=[prefix]).writable_session()
    session.root.create_array("raw", shape=4, dtype="i4", chunks=4, codecs=[])
    session.set_virtual_chunks("raw", [[0]], f"{prefix}raw", 0, 16)
    session.commit("raw numbers")
    with serving("sea.repo", "--port", "0", "--virtual-prefix", prefix) as url:
        with urllib.request.urlopen(url + "raw/c/0") as answer:
            assert answer.read() == raw


def test_a_virtual_chunk_that_may_not_be_read_is_an_error(workdir: Path, tmp_path: Path) -> None:
    from frazil.operations.serve.server import serve

    test_virtual_chunks_are_served_where_that_is_allowed(workdir)
    failures: list[str] = []
    store = frazil.Repository.open("sea.repo").readonly_session().store
    with serve(store, tell=failures.append) as server, pytest.raises(HTTPError) as refused:
        urllib.request.urlopen(server.url + "raw/c/0")
    assert refused.value.code in {400, 500}
    refused.value.close()


def test_the_port_that_is_left_out(workdir: Path) -> None:
    from argparse import ArgumentParser

    parser = ArgumentParser()
    COMMAND.fill(parser)
    options = parser.parse_args(["sea.zarr"])
    assert (options.host, options.port, options.follow) == ("127.0.0.1", 8000, False)


def test_serve_ends_during_an_answer(workdir: Path) -> None:
    frazil.create_array("large.zarr", data=np.zeros(2**25, np.uint8), chunks=2**25, codecs=[], fill_value=1)
    with serving("large.zarr", "--port", "0") as url:
        answer = urllib.request.urlopen(url + "c/0")
        assert answer.read(10) == bytes(10)
    with answer, pytest.raises((IncompleteRead, ConnectionError)):
        answer.read()


def test_a_bucket_is_served(s3: S3, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    bucket = f"s3://{s3.new_bucket()}"
    frazil.create_array(f"{bucket}/sea.zarr", data=SEA[:100, :100], chunks=(10, 10), shards=(50, 50))
    repo = frazil.Repository.create(f"{bucket}/sea.repo")
    for offset in (0, 1):
        with repo.transaction(message="one") as root:
            root.create_array("t", data=SEA[:50, :50] + offset, chunks=(10, 10), shards=(50, 50), overwrite=True)
        if not offset:
            repo.create_tag("v1", "main")
    for location, path, expected in (
        ("sea.zarr", "", SEA[:100, :100]),
        ("sea.repo@v1", "t", SEA[:50, :50]),
        ("sea.repo", "t", SEA[:50, :50] + 1),
    ):
        with serving(f"{bucket}/{location}", "--port", "0") as url:
            array = frazil.open_array(url, path=path)
            np.testing.assert_array_equal(np.asarray(array[...]), expected)
    for wrong in ("nothing.zarr", "sea.repo@v2"):
        command = [sys.executable, "-m", "frazil", "serve", f"{bucket}/{wrong}", "--port", "0"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert s3.secret not in done.stderr


def test_the_server_ends_at_sigterm(workdir: Path) -> None:
    with serving("sea.zarr", "--port", "0", signal_to_end=signal.SIGTERM, ends=-signal.SIGTERM) as url:
        assert shape(url + "zarr.json") == [600, 700]


def test_other_commands_do_without_the_server() -> None:
    code = "import frazil.cli.main, sys; print('http.server' in sys.modules, 'frazil.operations.serve.server' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "False False\n"


def test_a_client_that_leaves_in_the_middle_is_no_error(workdir: Path) -> None:
    frazil.create_array("large.zarr", data=np.zeros(2**23, np.uint8), chunks=2**23, codecs=[], fill_value=1)
    with serving("large.zarr", "--port", "0") as url:
        with urllib.request.urlopen(url + "c/0") as answer:
            assert answer.read(10) == bytes(10)
        assert shape(url + "zarr.json") == [2**23]
