"""Caches over really remote stores: how two buckets are distinguished; S3 and web servers read twice, changed meanwhile, from other processes."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import numpy as np
import pytest
from tests.faults.concurrent_calls import run
from tests.servers.buckets import S3
from tests.servers.web import WebServer, serving

import frazil
from frazil.stores import CachingStore, MemoryStore, Store
from frazil.stores.caches.disk_cache import DiskCache
from frazil.stores.objects.object_store import ObjectStore
from frazil.testing import CountingStore

VALUES = np.random.default_rng(3).integers(0, 2**60, (100, 100))
KEYS = {"access_key_id": "AKIA", "secret_access_key": "very-secret"}


def s3_store(url: str = "s3://b/p", **options: object) -> ObjectStore:
    return ObjectStore(url, **{"region": "us-east-1", **KEYS, **options})


def test_locations_are_distinguished_without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("obstore")
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    here = s3_store(endpoint="http://127.0.0.1:1")
    others: list[Store] = [
        s3_store(),
        s3_store("s3://b/q", endpoint="http://127.0.0.1:1"),
        s3_store("s3://c/p", endpoint="http://127.0.0.1:1"),
        s3_store(endpoint="http://127.0.0.1:2"),
        ObjectStore("az://b/p", account_name="one", account_key="a2V5"),
        ObjectStore("az://b/p", account_name="two", account_key="a2V5"),
        ObjectStore("gs://b/p", skip_signature=True),
        ObjectStore("https://b/p"),
    ]
    found = [store.identity for store in (here, *others)]
    assert len(set(found)) == len(found)
    assert None not in found
    text = " ".join(map(str, found))
    assert not any(secret in text for secret in ("AKIA", "very-secret", "a2V5"))
    same = [
        s3_store(endpoint="http://127.0.0.1:1", access_key_id="OTHER", secret_access_key="changed"),
        s3_store(endpoint="http://user:password@127.0.0.1:1"),
        pickle.loads(pickle.dumps(here)),
        CountingStore(here),
    ]
    assert {store.identity for store in same} == {here.identity}
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:3")
    assert s3_store().identity not in found


def test_a_store_in_obstores_memory_has_no_identity() -> None:
    memory = pytest.importorskip("obstore.store").MemoryStore
    assert ObjectStore(memory()).identity is None


READ = """
import sys, json, frazil
from frazil.stores.objects.object_store import ObjectStore
from frazil.testing import CountingStore
store = CountingStore(ObjectStore(sys.argv[1], **json.loads(sys.argv[2])))
root = frazil.Repository.open(store, cache=sys.argv[3]).readonly_session().root
print(int(root["a"][...].sum()), *sorted({done.key.split("/")[0] for done in store.requests}))
"""


def test_a_repository_in_s3(s3: S3, tmp_path: Path) -> None:
    bucket = s3.new_bucket()
    repo = frazil.Repository.create(s3.store(bucket, "r"))
    with repo.transaction(message="first") as root:
        root.create_array("a", data=VALUES, chunks=(20, 20), shards=(60, 60))
    for _ in range(2):
        store = CountingStore(s3.store(bucket, "r"))
        root = frazil.Repository.open(store, cache=tmp_path / "cache").readonly_session().root
        assert (root["a"][...] == VALUES).all()
    assert {done.key.split("/")[0] for done in store.requests} == {"refs"}
    store.clear()
    assert (root["a"][...] == VALUES).all()
    assert store.count() == 0, "remembered by the session"
    options = json.dumps(s3.options())
    assert run(READ, f"s3://{bucket}/r", options, tmp_path / "cache") == f"{VALUES.sum()} refs\n"
    with repo.transaction(message="second") as root:
        root["a"][0, 0] = 5
    assert run(READ, f"s3://{bucket}/r", options, tmp_path / "cache").endswith(" chunks manifests refs snapshots\n")


def test_an_array_in_s3_that_others_change(s3: S3, tmp_path: Path) -> None:
    bucket = s3.new_bucket()
    values = VALUES.copy()
    writer = frazil.create_array(s3.store(bucket), data=values, chunks=(50, 50), codecs=["bytes"])
    store = CountingStore(s3.store(bucket))
    reader = frazil.open_array(store, cache=tmp_path / "cache")
    for number in range(3):
        for _ in range(2):
            store.clear()
            assert (reader[...] == values).all()
        assert store.bytes_read == 0
        values[10, 10 + number] = number
        writer[10, 10 + number] = number


def test_files_of_a_web_server(web_server: WebServer, tmp_path: Path) -> None:
    frazil.create_array(tmp_path / "a", data=VALUES, chunks=(50, 50), codecs=["bytes"])
    with web_server(tmp_path / "a") as url:
        for number in range(3):
            store = CountingStore(ObjectStore(url))
            array = frazil.open_array(store, cache=tmp_path / "cache")
            store.clear()
            assert (array[...] == VALUES).all()
            assert (store.bytes_read == 0) == (number > 0)
            assert isinstance(array.store, DiskCache)


def test_values_of_unknown_length_are_read_through_each_cache(tmp_path: Path) -> None:
    """A server that neither knows ranges nor says how long its answers are, as one that makes them while they are sent."""
    content = MemoryStore()
    for path, shards in (("chunks", None), ("shards", (50, 100))):
        frazil.create_array(content, path=path, data=VALUES, chunks=(50, 50), shards=shards)

    class Unmeasured(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            value = content.get(self.path[1:])
            self.send_response(404 if value is None else 200)
            self.send_header(*(("Content-Length", "0") if value is None else ("Transfer-Encoding", "chunked")))
            self.end_headers()
            if value is not None and self.command == "GET":
                self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(value), value))

        do_HEAD = do_GET

        def log_message(self, *words: object) -> None:
            """Logs nothing: tests read the output."""

    caches: list[Callable[[Store], Store]] = [
        lambda store: store,
        lambda store: CachingStore(store, 10**6, validate=True),
        lambda store: CachingStore(store, 10**6),
        lambda store: DiskCache(store, tmp_path / "compared", small=0),
        lambda store: DiskCache(store, tmp_path / "trusted", unchanging=("",)),
    ]
    ranges = [("chunks/c/0/0", (3, 5)), ("chunks/c/0/0", (0, 4))]
    with serving(Unmeasured) as url:
        for cache in caches:
            store = cache(ObjectStore(url))
            for path in ("chunks", "shards"):
                for _ in range(2):
                    assert np.array_equal(frazil.open_array(store, path=path)[...], VALUES)
            assert store.get_partial_values(ranges) == content.get_partial_values(ranges)
