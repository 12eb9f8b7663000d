"""The servers of the tests do what object stores do: a client that is not ours finds them in order."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, PermissionDeniedError, PreconditionError, UnauthenticatedError
from obstore.store import AzureStore, S3Store
from tests.servers.buckets import S3, Azure, Buckets
from tests.servers.proxy import FaultProxy


def objects(server: Buckets, endpoint: str | None = None, **other: str) -> S3Store | AzureStore:
    config = {**server.options(endpoint), **other}
    options = {"allow_http": config.pop("allow_http")}
    kind = S3Store if isinstance(server, S3) else AzureStore
    return kind(server.new_bucket(), config=config, client_options=options)  # type: ignore[arg-type]


@pytest.fixture(params=["s3", "azure"])
def server(request: pytest.FixtureRequest) -> Buckets:
    return request.getfixturevalue(request.param)


def test_conditional_writes(server: Buckets) -> None:
    store = objects(server)
    first = obstore.put(store, "a/b", b"1", mode="create")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "a/b", b"2", mode="create")
    version = {"e_tag": first["e_tag"]}
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


def test_signatures_are_checked(s3: S3, azure: Azure) -> None:
    with pytest.raises((PermissionDeniedError, UnauthenticatedError)):
        obstore.put(objects(s3, secret_access_key="wrong"), "a", b"")
    with pytest.raises((PermissionDeniedError, UnauthenticatedError)):
        obstore.put(objects(azure, account_key="d3Jvbmc="), "a", b"")


def test_a_proxy_in_front_keeps_signatures_valid(server: Buckets) -> None:
    with FaultProxy(server.endpoint) as proxy:
        store = objects(server, proxy.url)
        data = os.urandom(3_000_001)
        obstore.put(store, "a", data)
        assert bytes(obstore.get(store, "a").bytes()) == data
        assert [entry["path"] for entry in obstore.list(store).collect()] == ["a"]
        assert {request.method for request in proxy.requests} == {"PUT", "GET"}


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
