"""ObjectStore over obstore's store in memory: the suite of all stores, and what is its own. Real servers are tested beside it, in test_object_servers.py."""

from __future__ import annotations

import os
import pickle
import signal
from pathlib import Path

import pytest

import frazil
from frazil.errors import InvalidInputError, StoreError
from frazil.stores import ObjectStore, Store
from frazil.stores.locations import resolve
from frazil.testing.store_tests import StoreTests

obstore = pytest.importorskip("obstore")


class TestObjectStore(StoreTests):
    def make_store(self) -> Store:
        return ObjectStore(obstore.store.MemoryStore())


def test_an_object_of_obstore_is_a_location() -> None:
    place = obstore.store.MemoryStore()
    frazil.create_array(place, shape=(8,), dtype="int32", chunks=(2,), shards=(4,))[:] = range(8)
    assert frazil.open_array(place)[3:6].tolist() == [3, 4, 5]
    repo = frazil.Repository.create(obstore.store.MemoryStore())
    with repo.transaction("main", message="one") as root:
        root.create_array("a", shape=(4,), dtype="int8", chunks=(2,))[:] = 1
    assert repo.readonly_session().root["a"][:].tolist() == [1, 1, 1, 1]


def test_an_emptied_shard_is_replaced_and_not_erased() -> None:
    store = ObjectStore(obstore.store.MemoryStore())
    array = frazil.create_array(store, path="sharded", shape=(8,), dtype="int32", chunks=(2,), shards=(8,))
    array[:3] = 5
    array[:4] = 0
    assert store.exists("sharded/c/0")
    assert not frazil.open_array(store, path="sharded")[:].any()
    plain = frazil.create_array(store, path="plain", shape=(8,), dtype="int32", chunks=(4,))
    plain[:2] = 5
    plain[:2] = 0
    assert store.exists("plain/c/0")
    assert not plain[:].any()
    plain[:4] = 0
    assert not store.exists("plain/c/0"), "what is covered whole is erased whatever it was"


@pytest.mark.parametrize(
    "url",
    [
        "s3://",
        "s3:///a",
        "s3://user:secret@bucket/a",
        "s3://bucket/a?versionId=secret",
        "https://host/a?token=secret",
        "gs://",
        "az://",
    ],
)
def test_urls_that_make_no_sense(url: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        resolve(url)
    assert "secret" not in str(caught.value)


def test_options_that_make_no_sense() -> None:
    with pytest.raises(InvalidInputError, match="nonsense"):
        ObjectStore("s3://bucket", nonsense="1")
    with pytest.raises(InvalidInputError, match="client_options"):
        ObjectStore("s3://bucket", client_options=3)
    with pytest.raises(InvalidInputError, match="max_retries"):
        ObjectStore("s3://bucket", retry_config={"max_retries": -1})
    with pytest.raises(InvalidInputError, match="goes with a URL"):
        ObjectStore(obstore.store.MemoryStore(), region="a")
    with pytest.raises(InvalidInputError, match="client_options"):
        ObjectStore(obstore.store.S3Store("bucket", config={"allow_http": "true"}))
    with pytest.raises(InvalidInputError, match="folder"):
        ObjectStore(obstore.store.LocalStore("/"))
    with pytest.raises(InvalidInputError, match="requests_in_flight"):
        ObjectStore("s3://bucket", requests_in_flight=0)


def test_no_secret_is_shown_and_all_is_pickled() -> None:
    store = ObjectStore(
        "s3://bucket/a/b", access_key_id="known", secret_access_key="secret", region="here", requests_in_flight=3
    )
    assert repr(store) == "ObjectStore('s3://bucket/a/b')"
    again = pickle.loads(pickle.dumps(store))
    assert (repr(again), again.requests_in_flight) == (repr(store), 3)
    client = obstore.store.S3Store("bucket", prefix="a/b", access_key_id="known", secret_access_key="secret")
    assert repr(ObjectStore(client)) == repr(pickle.loads(pickle.dumps(ObjectStore(client)))) == repr(store)


def test_a_server_that_is_not_there_is_told_at_once() -> None:
    store = ObjectStore(
        "s3://bucket/a",
        endpoint="http://127.0.0.1:9",
        access_key_id="known",
        secret_access_key="secret",
        retry_config={"max_retries": 0},
    )
    for act in (lambda: store.get("a"), lambda: store.set("a", b""), lambda: store.create("a", b""), store.list):
        with pytest.raises(StoreError, match="s3://bucket/a") as caught:
            act()
        assert "secret" not in str(caught.value)
        assert "\n" not in str(caught.value)


def test_credentials_come_from_the_files_of_the_aws_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    (tmp_path / "credentials").write_text("[other]\naws_access_key_id = known\naws_secret_access_key = secret\n")
    (tmp_path / "config").write_text("[profile other]\nregion = far-1\nendpoint_url = http://127.0.0.1:9\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "other")
    config = ObjectStore("s3://bucket")._clients.reader.config  # type: ignore[union-attr]
    assert (config["access_key_id"], config["secret_access_key"], config["region"]) == ("known", "secret", "far-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of the environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "that too")
    config = ObjectStore("s3://bucket")._clients.reader.config  # type: ignore[union-attr]
    assert "access_key_id" not in config, "the client takes it from the environment itself"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_fork_is_told_to_open_it_again() -> None:
    store = ObjectStore(obstore.store.MemoryStore())
    store.set("a", b"1")
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            store.get("a")
        except StoreError as error:
            os._exit(0 if "spawn" in str(error) else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert store.get("a") == b"1"


@pytest.mark.parametrize("endpoint", ["127.0.0.1:9000", "localhost", "http://", "file:///etc"])
def test_an_endpoint_that_is_no_url(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInputError, match="endpoint is no URL"):
        ObjectStore("s3://bucket/x", endpoint=endpoint)
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(InvalidInputError, match="endpoint is no URL"):
        ObjectStore("s3://bucket/x")
