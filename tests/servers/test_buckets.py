"""The test servers behave like object stores: checked with a client that is not ours."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, PermissionDeniedError, PreconditionError, UnauthenticatedError
from obstore.store import AzureStore, GCSStore, S3Store
from tests.servers.buckets import Buckets
from tests.servers.processes import held_port
from tests.servers.proxy import FaultProxy


def objects(server: Buckets, endpoint: str | None = None, **other: str) -> S3Store | AzureStore | GCSStore:
    config = {**server.options(endpoint), **other}
    options = {"allow_http": config.pop("allow_http")}
    kind = {"s3": S3Store, "az": AzureStore, "gs": GCSStore}[server.scheme]
    return kind(server.new_bucket(), config=config, client_options=options)  # type: ignore[arg-type]


@pytest.fixture(params=["s3", "azure", "gcs"])
def server(request: pytest.FixtureRequest) -> Buckets:
    return request.getfixturevalue(request.param)


def test_conditional_writes(server: Buckets) -> None:
    store = objects(server)
    first = obstore.put(store, "a/b", b"1", mode="create")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "a/b", b"2", mode="create")
    version: Any = {name: value for name, value in first.items() if value is not None}
    obstore.put(store, "a/b", b"3", mode=version)
    with pytest.raises(PreconditionError):
        obstore.put(store, "a/b", b"4", mode=version)
    assert bytes(obstore.get(store, "a/b").bytes()) == b"3"
    assert bytes(obstore.get_range(store, "a/b", start=0, length=1)) == b"3"


def test_buckets_are_new_and_environments_name_them(server: Buckets) -> None:
    first, name = server.new_bucket(), server.new_bucket()
    assert first != name
    script = f"""
        import obstore
        store = obstore.store.from_url({server.url(name, "in")!r})
        obstore.put(store, "key", b"value")
        print([entry["path"] for entry in obstore.list(store).collect()])
    """
    environment = {**os.environ, **server.environment()}
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], env=environment, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "['key']\n"


WRONG = {"s3": {"secret_access_key": "wrong"}, "az": {"account_key": "d3Jvbmc="}, "gs": {"bearer_token": "wrong"}}


def test_signatures_are_checked(server: Buckets) -> None:
    with pytest.raises((PermissionDeniedError, UnauthenticatedError)):
        obstore.put(objects(server, **WRONG[server.scheme]), "a", b"")


def test_lists_and_large_objects(server: Buckets) -> None:
    store = objects(server)
    data = os.urandom(11 * 2**20)
    with obstore.open_writer(store, "large", buffer_size=5 * 2**20) as writer:
        writer.write(data)
    assert bytes(obstore.get(store, "large").bytes()) == data
    for number in range(3):
        obstore.put(store, f"in/b & c/{number}", b"")
    assert [entry["path"] for entry in obstore.list(store, "in").collect()] == [f"in/b & c/{n}" for n in range(3)]
    if server.scheme != "az":  # Azurite ignores the start, and lists all
        after = obstore.list(store, "in", offset="in/b & c/1").collect()
        assert [entry["path"] for entry in after] == ["in/b & c/2"]
    level = obstore.list_with_delimiter(store, "in")
    assert (level["common_prefixes"], level["objects"]) == (["in/b & c"], [])
    obstore.delete(store, ["in/b & c/1", "large"])
    assert [entry["path"] for entry in obstore.list(store).collect()] == ["in/b & c/0", "in/b & c/2"]
    with pytest.raises(FileNotFoundError):
        obstore.get(store, "large")
    with pytest.raises(PreconditionError):
        obstore.get(store, "in/b & c/0", options={"if_match": '"other"'})


def test_a_proxy_in_front_keeps_signatures_valid(server: Buckets) -> None:
    with FaultProxy(server.endpoint) as proxy:
        store = objects(server, proxy.url)
        data = os.urandom(3_000_001)
        obstore.put(store, "a", data)
        assert bytes(obstore.get(store, "a").bytes()) == data
        assert [entry["path"] for entry in obstore.list(store).collect()] == ["a"]
        assert {request.method for request in proxy.requests} == {"PUT", "GET"}


def test_a_held_port_is_for_one_server_alone() -> None:
    with held_port() as port:
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        with socket.create_server(("127.0.0.1", port)):
            socket.create_connection(("127.0.0.1", port)).close()


def test_servers_end_with_the_session(tmp_path: Path) -> None:
    """Also when it is killed, and cannot clean up."""
    script = f"""
        import os, pathlib, signal, time
        from tests.servers.buckets import running_s3
        with running_s3(pathlib.Path({str(tmp_path)!r})) as server:
            print(server.endpoint, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False)
    if "Skipped" in ran.stderr:
        pytest.skip("versitygw is not here")
    port = int(ran.stdout.strip().rpartition(":")[2])
    until = time.monotonic() + 30
    while f":{port:04X} 00000000:0000 0A" in Path("/proc/net/tcp").read_text():
        assert time.monotonic() < until, "it listens still"
        time.sleep(0.01)
