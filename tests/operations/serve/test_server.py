"""A running server: values and ranges over LocalStore, MemoryStore and repositories, following a branch, and how it ends."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import threading
import time
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.no_backoff import no_pauses
from tests.operations.served import VALUES, Client, fill, old_files, served_value

import frazil
from frazil.errors import InvalidInputError, NotFoundError, StoreError
from frazil.operations.serve import values
from frazil.operations.serve.server import Server, follow, serve
from frazil.stores import LocalStore, MemoryStore, Store, ZipStore
from frazil.stores.objects.object_store import ObjectStore
from frazil.testing import CountingStore, Fault, FaultPlan, FaultyStore
from frazil.testing.buffered_store import BufferedStore

# --- values --------------------------------------------------------------------------------------------------------------------------


def test_every_key_is_served_with_its_value(served: tuple[Store, Client]) -> None:
    store, client = served
    keys = store.list()
    assert len(keys) > 15
    for key in keys:
        value, reply, head = (
            served_value(store, key),
            client.request("/" + quote(key)),
            client.request("/" + quote(key), "HEAD"),
        )
        assert (reply.status, reply.body) == (200, value)
        assert (head.status, head.body) == (200, b"")
        for fields in (reply.headers, head.headers):
            assert fields["content-length"] == str(len(value))
            assert fields["content-type"] == (
                "application/json" if key.endswith(".json") else "application/octet-stream"
            )
            assert fields["accept-ranges"] == "bytes"
            assert "access-control-allow-origin" not in fields
            assert fields["cross-origin-resource-policy"] == "same-origin"
        assert reply.headers["etag"] == head.headers["etag"]


@settings(max_examples=40)
@given(
    st.sampled_from(["level1/sharded/c/0/1", "level1/sharded/c/1/1", "zarr.json"]),
    st.integers(0, 1500) | st.none(),
    st.integers(0, 1500) | st.none(),
)
def test_ranges_are_slices(served: tuple[Store, Client], key: str, first: int | None, length: int | None) -> None:
    store, client = served
    value = served_value(store, key)
    if first is None:
        text, expected = f"bytes=-{length or 0}", value[-length:] if length else b""
    else:
        last = "" if length is None else first + length
        text, expected = f"bytes={first}-{last}", value[first:] if length is None else value[first : first + length + 1]
    reply = client.request("/" + key, Range=text)
    if expected:
        start = len(value) - len(expected) if first is None else first
        assert (reply.status, reply.body) == (206, expected)
        assert reply.headers["content-range"] == f"bytes {start}-{start + len(expected) - 1}/{len(value)}"
    else:
        assert reply.status == 416
        assert reply.headers["content-range"] == f"bytes */{len(value)}"


def test_missing_keys(served: tuple[Store, Client]) -> None:
    _, client = served
    for key in ("nothing", "level1", "level1/plain/c/9/9", "level1/plain/c", "c/0", "level1/plain/c/0/1/2"):
        for method in ("GET", "HEAD"):
            reply = client.request("/" + key, method)
            assert reply.status == 404
            assert client.request("/" + key, method, Range="bytes=-5").status == 404
            assert client.request("/" + key, method, If_None_Match="*").status == 404


def test_etags(served: tuple[Store, Client]) -> None:
    store, client = served
    tags = {key: client.request("/" + quote(key), "HEAD").headers["etag"] for key in store.list()}
    assert len(set(tags.values())) == len(tags)
    for key in ("zarr.json", "level1/sharded/c/0/0"):
        tag = tags[key]
        assert re.fullmatch(r'"[0-9a-f]{32}"', tag)
        same = client.request("/" + key, If_None_Match=f'"x", {tag}')
        assert (same.status, same.body, same.headers["etag"]) == (304, b"", tag)
        assert client.request("/" + key, If_None_Match='"x"').body == served_value(store, key)
        assert client.request("/" + key, If_Match='"x"').status == 412
        assert client.request("/" + key, Range="bytes=0-3", If_Match=tag).body == served_value(store, key)[:4]
        assert client.request("/" + key, Range="bytes=0-3", If_Range='"x"').status == 200


def test_a_served_snapshot_does_not_change(stores: dict[str, Store]) -> None:
    with serve(stores["repository, old"]) as old, serve(stores["repository, new"]) as new:
        assert Client(old).request("/later/zarr.json").status == 404
        assert Client(new).request("/later/zarr.json").status == 200
        assert Client(old).request("/level1/plain/c/0/0").status == 200
        assert Client(new).request("/level1/plain/c/0/0").status == 404  # all fill value


def test_repositories_are_served_like_folders(stores: dict[str, Store]) -> None:
    with serve(stores["repository, old"]) as server:
        client = Client(server)
        chunks = [key for key in stores["local"].list() if "/c/" in key]
        assert len(chunks) > 10
        for key in chunks:
            value = stores["local"].get(key)
            assert value is not None
            assert client.request("/" + key).body == value
            assert client.request("/" + key, Range="bytes=-9").body == value[-9:]


def test_zarr_python_reads_it(stores: dict[str, Store]) -> None:
    obstore = pytest.importorskip("obstore.store")
    zarr = pytest.importorskip("zarr")
    with serve(stores["repository, old"]) as server:
        http_store = obstore.HTTPStore.from_url(server.url, client_options={"allow_http": True})
        root = zarr.open_group(zarr.storage.ObjectStore(http_store, read_only=True), mode="r")
        assert root.attrs["title"] == "The sea"
        np.testing.assert_array_equal(root["level1/sharded"][...], VALUES + 1)
        np.testing.assert_array_equal(root["level1/plain"][3:5, ::7], VALUES[3:5, ::7])


@pytest.mark.parametrize("name", ["local", "repository, old"])
def test_frazil_reads_it(name: str, stores: dict[str, Store]) -> None:
    pytest.importorskip("obstore")
    with serve(stores[name]) as server:
        np.testing.assert_array_equal(np.asarray(frazil.open_array(server.url + "level1/plain")[...]), VALUES)
        sharded = frazil.open_array(server.url, path="level1/sharded")
        np.testing.assert_array_equal(np.asarray(sharded[5:, 30]), VALUES[5:, 30] + 1)
        assert dict(frazil.open_group(server.url).attrs) == {"title": "The sea"}


def test_an_object_store_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    obstore = pytest.importorskip("obstore.store")
    monkeypatch.setattr(values, "PIECE", 1000)
    store = ObjectStore(obstore.MemoryStore())
    value = np.random.default_rng(0).bytes(5500)
    store.set("a/zarr.json", b'{"node_type": "array"}')
    store.set("a/c/0", value)
    with serve(store) as server:
        client = Client(server)
        for headers, expected in (
            ({}, value),
            ({"Range": "bytes=-9"}, value[-9:]),
            ({"Range": "bytes=-3000"}, value[-3000:]),
            ({"Range": "bytes=5000-9999999"}, value[5000:]),
            ({"Range": f"bytes=7-{'9' * 50}"}, value[7:]),
            ({"Range": "bytes=1-2", "If_Match": "*"}, value[1:3]),
        ):
            assert client.request("/a/c/0", **headers).body == expected
        assert client.request("/a/c/0", Range="bytes=5500-").status == 416
        assert client.request("/a").status == client.request("/c/1", Range="bytes=0-1").status == 404
        tag = client.request("/a/c/0", "HEAD").headers["etag"]
        assert client.request("/a/c/0", If_None_Match=tag).status == 304


def test_a_path_below_the_root_is_served(stores: dict[str, Store]) -> None:
    for name in ("local", "repository, old"):
        with serve(stores[name], "level1") as server:
            client = Client(server)
            assert json.loads(client.request("/plain/zarr.json").body)["shape"] == [40, 50]
            assert client.request("/level1/plain/zarr.json").status == 404
            assert client.request("/../zarr.json").status == 400


def test_a_value_that_changes(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.set("zarr.json", b'{"node_type": "array"}')
    store.set("c/0", b"one")
    with serve(store) as server:
        client = Client(server)
        assert client.request("/c/0").body == b"one"
        old_files(tmp_path)
        tag = client.request("/c/0").headers["etag"]
        assert client.request("/c/0", If_None_Match=tag).status == 304
        store.set("c/0", b"two!")
        reply = client.request("/c/0", If_None_Match=tag)
        assert (reply.status, reply.body) == (200, b"two!")
        assert client.request("/c/0", If_Match=tag).status == 412
        store.set("c/1", b"")
        assert (client.request("/c/1").status, client.request("/c/1").headers["content-length"]) == (200, "0")
        assert client.request("/c/1", Range="bytes=0-").status == 416


@pytest.mark.parametrize("kind", ["folder", "zip"])
def test_a_value_that_has_just_changed_has_an_etag(kind: str, tmp_path: Path) -> None:
    """It had none, so that a reader combined the index of a shard with inner chunks of the next one."""
    store = LocalStore(tmp_path) if kind == "folder" else ZipStore(tmp_path / "a.zip")
    store.set("zarr.json", b'{"node_type": "array"}')
    store.set("c/0", b"one")
    ahead = 10**9 * 4_000_000_000
    changed = tmp_path / "c/0" if kind == "folder" else tmp_path / "a.zip"
    os.utime(changed, ns=(ahead, ahead))
    with serve(store) as server:
        client = Client(server)
        tag = client.request("/c/0").headers["etag"]
        assert client.request("/c/0", If_Match=tag, Range="bytes=-1").body == b"e"
        store.set("c/0", b"two")
        os.utime(changed, ns=(ahead, ahead))
        assert client.request("/c/0", If_Match=tag).status == 412
        assert client.request("/c/0").headers["etag"] != tag


def test_files_that_have_just_changed_stay_open_for_a_while(tmp_path: Path) -> None:
    """As long as one is open, no other file has its inode."""

    def is_open(name: str) -> bool:
        links = [os.readlink(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{number}")]  # fmt: skip
        return str(tmp_path / name) in links

    store, now = LocalStore(tmp_path), [0.0]
    held = values.HeldFiles(lambda: now[0])
    store.set("old", b"1")
    old_files(tmp_path)
    assert values.find_value(store, "old", (0, 1), held=held) is not None
    assert not is_open("old")
    for i in range(values._MOST_HELD + 1):
        store.set(f"{i}", b"1")
    ahead = 10**9 * 4_000_000_000
    for i in range(values._MOST_HELD + 1):
        os.utime(tmp_path / f"{i}", ns=(ahead, ahead))
    tags = [[value.etag for value in (values.find_value(store, f"{i}", None, held=held) for _ in range(2)) if value] for i in range(values._MOST_HELD + 1)]  # fmt: skip
    assert all(first == second for first, second in tags[:-1])
    assert None not in tags[-1] and tags[-1][0] != tags[-1][1], "too many are open: no value has this version"
    assert is_open("0") and not is_open(f"{values._MOST_HELD}")
    now[0] = 0.2
    again = [values.find_value(store, f"{values._MOST_HELD}", None, held=held) for _ in range(2)]
    first, second = [value.etag for value in again if value]
    assert first == second, "a folder with time stamps in the future could not be read: its ETags changed each time"
    assert is_open("1") and not is_open("0")
    now[0] = 10.0
    held.release()
    assert not is_open("0")
    frazil.create_array(tmp_path / "a", data=[1])
    os.utime(tmp_path / "a/zarr.json", ns=(ahead, ahead))
    with serve(store) as server:
        assert Client(server).request("/a/zarr.json").status == 200
        assert is_open("a/zarr.json")
    end = time.monotonic() + 60
    while is_open("a/zarr.json") and time.monotonic() < end:  # until the thread of the connection has ended
        time.sleep(0.01)
    assert not is_open("a/zarr.json")


def test_etags_of_a_store_in_memory_end_with_the_server() -> None:
    tags = []
    for value in (b"one", b"two"):
        store = MemoryStore()
        store.set("zarr.json", b'{"node_type": "array"}')
        store.set("c/0", value)
        with serve(store) as server:
            tags.append(Client(server).request("/c/0").headers["etag"])
    assert tags[0] != tags[1]


# --- reads ---------------------------------------------------------------------------------------------------------------------------


def test_only_needed_bytes_are_read(stores: dict[str, Store]) -> None:
    counting = CountingStore(stores["memory"])
    with serve(counting) as server:
        client = Client(server)
        assert (
            client.request("/level1/sharded/c/0/0", "HEAD").status == 200
        )  # looks for the document of the array, which is cached afterwards
        counting.clear()
        for headers, operations, count in (
            ({"Range": "bytes=2-9"}, ["fetch"], 8),
            ({"Range": "bytes=-20"}, ["fetch"], 20),
            ({"Range": "bytes=0-9,20-29"}, ["fetch"], None),
            ({}, ["fetch"], None),
            ({"If_None_Match": "*"}, ["look up"], 0),
            ({"Range": "bytes=99999999-"}, ["fetch"], 0),
        ):
            reply = client.request("/level1/sharded/c/0/0", **headers)
            assert [request.operation for request in counting.requests] == operations
            assert counting.bytes_read == (len(reply.body) if count is None else count)
            counting.clear()
        assert client.request("/level1/sharded/c/0/0", "HEAD").status == 200
        assert [request.operation for request in counting.requests] == ["look up"]


def test_a_part_of_a_chunk_in_a_repository_is_one_request() -> None:
    """A small one is read whole and cached."""
    memory = MemoryStore()
    with frazil.Repository.create(memory).transaction(message="one") as root:
        fill(root)
    counting = CountingStore(memory)
    with serve(frazil.Repository.open(counting).readonly_session().store) as server:
        client = Client(server)
        assert client.request("/level1/sharded/c/0/1", Range="bytes=-20").status == 206  # also loads the manifest
        for method, headers, requests in (
            ("GET", {"Range": "bytes=3-12"}, 1),
            ("GET", {"Range": "bytes=-7", "If_Match": "*"}, 0),
            ("HEAD", {}, 0),
            ("GET", {"If_None_Match": "*"}, 0),
        ):
            counting.clear()
            client.request("/level1/sharded/c/1/0", method, **headers)
            assert [request.operation for request in counting.requests] == ["fetch"] * requests


@settings(max_examples=30)
@given(st.integers(0, 50), st.integers(0, 50))
def test_pieces_make_the_whole(first: int, length: int) -> None:
    value = bytes(range(50))
    store = CountingStore(MemoryStore())
    store.set("a", value)
    for ahead in (None, (first, 7), (-20, 20), (0, 7)):
        found = values.find_value(store, "a", ahead)
        assert found is not None
        assert (found.size, first + min(length, 50 - first)) == (50, min(first + length, 50))
        expected = value[first : first + length]
        assert b"".join(found.pieces(first, len(expected))) == expected


@pytest.mark.parametrize("kind", ["local", "memory", "repository"])
def test_large_values_come_in_pieces_of_one_version(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "PIECE", 1000)
    value = np.random.default_rng(1).bytes(100_001)
    store: Store = LocalStore(tmp_path / "plain") if kind == "local" else MemoryStore()
    if kind == "repository":
        repo = frazil.Repository.create(tmp_path / "sea.repo", durable=False)
        with repo.transaction(message="one") as root:
            root.create_array("a", data=np.frombuffer(value, np.uint8), chunks=100_001, codecs=[])
        store = repo.readonly_session().store
    else:
        store.set("a/zarr.json", b'{"node_type": "array"}')
        store.set("a/c/0", value)
    found = values.find_value(store, "a/c/0", None)
    assert found is not None
    pieces = found.pieces(1, 100_000)
    read = [next(pieces)]
    if kind != "repository":
        store.set("a/c/0", b"another value")  # the old one is held
    read += pieces
    assert {len(piece) for piece in read} == {1000}
    assert b"".join(read) == value[1:]
    if kind == "repository":
        with serve(store) as server:
            assert Client(server).request("/a/c/0", Range="bytes=5-").body == value[5:]


class Replaced(BufferedStore):
    """Another program puts a new value after each of the first `times` look-ups; old values are not held, as in object stores."""

    def __init__(self, inner: Store, times: int) -> None:
        super().__init__(inner)
        self.times = times

    def fetch(self, names, spans, *, expect=None, continue_from=None, single_read=False):  # type: ignore[no-untyped-def]
        found = super().fetch(names, spans, expect=expect if continue_from is None else continue_from.versions)
        if continue_from is None and self.times and names[0] == "c/0":
            self.times -= 1
            self.inner.set(names[0], b"value %d" % self.times)
        return found


@pytest.mark.parametrize(("times", "status"), [(1, 200), (5, 200), (100, 500)])
@no_pauses()
def test_a_value_that_is_replaced_after_its_look_up(times: int, status: int) -> None:
    store, failures = MemoryStore(), list[str]()
    store.set("zarr.json", b'{"node_type": "array"}')
    store.set("c/0", b"the first")
    with serve(Replaced(store, times), tell=failures.append) as server:
        reply = Client(server).request("/c/0", If_Match="*")  # with a condition it is first looked up
    assert (reply.status, len(failures)) == (status, int(status == 500))
    if status == 200:
        assert reply.body == b"value 0"


# --- start and end -------------------------------------------------------------------------------------------------------------------


def test_following_a_branch(tmp_path: Path) -> None:
    repo = frazil.Repository.create(tmp_path / "sea.repo", durable=False)
    repo.create_branch("dev", "main")
    with follow(repo, "dev", every=0) as server:
        client = Client(server)
        assert client.request("/t/zarr.json").status == 404
        for length in (3, 5):
            with repo.transaction("dev", message="more") as root:
                root.create_array("t", data=np.arange(length), overwrite=True)
            assert json.loads(client.request("/t/zarr.json").body)["shape"] == [length]
        repo.delete_branch("dev")
        assert client.request("/t/zarr.json").status == 500
    with pytest.raises(NotFoundError, match="dev"):
        follow(repo, "dev")


def test_a_followed_branch_is_looked_at_now_and_then(tmp_path: Path) -> None:
    repo = frazil.Repository.create(tmp_path / "sea.repo", durable=False)
    with follow(repo, every=1e6) as server:
        with repo.transaction(message="more") as root:
            root.create_array("t", data=np.arange(3))
        assert Client(server).request("/t/zarr.json").status == 404


def test_many_clients_read_at_once(stores: dict[str, Store]) -> None:
    store = stores["repository, old"]
    keys = store.list()
    values = [served_value(store, key) for key in keys]
    wrong: list[str] = []

    def read(server: Server) -> None:
        client = Client(server)
        wrong.extend(key for key, value in zip(keys, values, strict=True) if client.request("/" + key).body != value)

    with serve(store) as server:
        threads = [threading.Thread(target=read, args=(server,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_the_end_of_a_server(stores: dict[str, Store]) -> None:
    server = serve(stores["memory"])
    assert repr(server) == f"<frazil Server {server.url}>"
    waiting = threading.Thread(target=server.wait)
    waiting.start()
    client = Client(server)
    assert client.request("/zarr.json").status == 200
    server.close()
    server.close()
    waiting.join(60)
    assert not waiting.is_alive()
    with pytest.raises((OSError, http.client.HTTPException)):
        client.connection.sock.sendall(b"GET /zarr.json HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.connection.sock.recv(1) == b""
        raise ConnectionResetError
    with pytest.raises(ConnectionRefusedError):
        Client(server).request("/zarr.json")


def test_addresses_of_the_server(stores: dict[str, Store]) -> None:
    store = stores["memory"]
    with serve(store) as first:
        host, port = first.url[7:-1].split(":")
        assert (host, int(port) > 0) == ("127.0.0.1", True)
        with pytest.raises(InvalidInputError, match=f"port {port}"):
            serve(store, port=int(port))
    with serve(store, host="0.0.0.0") as server:
        assert server.url.startswith("http://127.0.0.1:")
        assert Client(server).request("/zarr.json").status == 200
    for wrong in ({"port": -1}, {"port": 2**16}, {"port": True}, {"host": ""}, {"host": "no such host"}, {"host": "x" * 300}, {"host": "192.0.2.1"}):  # fmt: skip
        with pytest.raises(InvalidInputError):
            serve(store, **wrong)  # type: ignore[arg-type]


def test_the_server_listens_on_ipv6(stores: dict[str, Store]) -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6")
    with serve(stores["memory"], host="::1") as server:
        assert server.url.startswith("http://[::1]:")
        assert Client(server).request("/zarr.json").status == 200


def test_missing_locations_are_refused(tmp_path: Path, stores: dict[str, Store]) -> None:
    for location, path in ((tmp_path / "nothing.zarr", ""), (MemoryStore(), ""), (stores["local"], "level2")):
        with pytest.raises(NotFoundError, match="nothing is there"):
            serve(location, path)
    with pytest.raises(StoreError):
        serve(FaultyStore(stores["memory"], FaultPlan([Fault("list", 1)])))
