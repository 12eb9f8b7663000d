"""ObjectStore over obstore's store in memory: the suite of all stores, and its specifics. Real servers are in test_object_servers.py."""

from __future__ import annotations

import os
import pickle
import re
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Event
from typing import ClassVar

import numpy as np
import pytest
from tests.servers.scripted import Request, Scripted, answer, scripted
from tests.servers.web import serving, web_server

import frazil
from frazil.errors import InvalidInputError, StoreError
from frazil.stores import CachingStore, MemoryStore, ObjectStore, Store
from frazil.stores.location_overlap import address_of
from frazil.stores.locations import resolve
from frazil.stores.values import STALE, WHOLE
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
        "s3://user:secret/of-two-parts@bucket/a",
        "s3://user:secret",
        "https://user:secret",
        "ftp://user:secret/of-two-parts@host/a",
        "ftp://host/a?token=secret",
        "s3://bucket/a?versionId=secret",
        "https://host/a?token=secret",
        "https://host?token=secret",
        "https://host#secret",
        "s3://bucket?versionId=secret",
        "az://box#secret",
        "gs://",
        "az://",
    ],
)
def test_invalid_urls_are_refused(url: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        resolve(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["https://host:8080/a", "http://[::1]:8080/a", "http://[::1]/a"])
def test_ports_are_no_secrets(url: str) -> None:
    assert resolve(url)[0].url == url  # type: ignore[attr-defined]


def test_invalid_options_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="nonsense"):
        ObjectStore("s3://bucket", nonsense="1")
    with pytest.raises(InvalidInputError, match="client_options"):
        ObjectStore("s3://bucket", client_options=3)
    with pytest.raises(InvalidInputError, match="max_retries"):
        ObjectStore("s3://bucket", retry_config={"max_retries": -1})
    with pytest.raises(InvalidInputError, match="is only for a URL"):
        ObjectStore(obstore.store.MemoryStore(), region="a")
    with pytest.raises(InvalidInputError, match="client_options"):
        ObjectStore(obstore.store.S3Store("bucket", config={"allow_http": "true"}))
    with pytest.raises(InvalidInputError, match="folder"):
        ObjectStore(obstore.store.LocalStore("/"))
    with pytest.raises(InvalidInputError, match="requests_in_flight"):
        ObjectStore("s3://bucket", requests_in_flight=0)


def test_repr_hides_secrets_and_pickles_keep_all_options() -> None:
    store = ObjectStore(
        "s3://bucket/a/b", access_key_id="known", secret_access_key="secret", region="here", requests_in_flight=3
    )
    assert repr(store) == "ObjectStore('s3://bucket/a/b')"
    again = pickle.loads(pickle.dumps(store))
    assert (repr(again), again.requests_in_flight) == (repr(store), 3)
    client = obstore.store.S3Store("bucket", prefix="a/b", access_key_id="known", secret_access_key="secret")
    assert repr(ObjectStore(client)) == repr(pickle.loads(pickle.dumps(ObjectStore(client)))) == repr(store)


def test_tokens_do_not_tell_servers_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_FABRIC_SESSION_TOKEN", "secret")
    store = ObjectStore("az://box/a", account_name="known", skip_signature=True)
    assert "secret" not in f"{store.server} {store.identity}"
    assert "known" in store.server


def test_options_in_different_forms_are_one_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    store = ObjectStore("s3://bucket/a", endpoint="http://127.0.0.1:9", skip_signature=True)
    others = [
        ObjectStore("s3a://bucket/a", aws_endpoint_url="http://127.0.0.1:9/", skip_signature=True),
        ObjectStore(
            obstore.store.S3Store(
                "bucket",
                prefix="a",
                config={"aws_endpoint": "http://127.0.0.1:9"},
                client_options={"allow_http": True},
                skip_signature=True,
            )
        ),
    ]
    elsewhere = ObjectStore("s3://bucket/a", endpoint="http://127.0.0.1:8", skip_signature=True)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AZURE_ENDPOINT", "http://127.0.0.1:7")
    others.append(ObjectStore("s3://bucket/a", skip_signature=True))
    for other in others:
        assert (other.server, other.identity) == (store.server, store.identity)
        with pytest.raises(InvalidInputError, match="same location"):
            frazil.copy(store, other, overwrite=True)
    assert elsewhere.identity != store.identity


def test_no_request_is_active_when_a_failure_is_raised() -> None:
    store, begun, done = ObjectStore(obstore.store.MemoryStore()), Event(), []

    def request(number: int) -> None:
        if number == 0:
            begun.wait(10)
            raise StoreError("refused")
        begun.set()
        time.sleep(0.05)  # so that the failure is known long before
        done.append(number)

    with pytest.raises(StoreError, match="refused"):
        store._all(request, [0, 1])
    assert done == [1]


class _Endless(BaseHTTPRequestHandler):
    """A listing in which the next page is always the previous one."""

    def do_GET(self) -> None:
        entry = "<Contents><Key>x/{}</Key><Size>1</Size><LastModified>2026-01-01T00:00:00Z</LastModified><ETag>e</ETag></Contents>"
        entries = "".join(entry.format(number) for number in range(1000))
        more = "<IsTruncated>true</IsTruncated><NextContinuationToken>again</NextContinuationToken>"
        body = f"<ListBucketResult>{more}{entries}</ListBucketResult>".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Logs nothing."""


def test_a_listing_without_an_end_is_an_error() -> None:
    with serving(_Endless) as url:
        store = ObjectStore("s3://bucket", endpoint=url, skip_signature=True)
        with pytest.raises(StoreError, match="repeat the same keys") as caught:
            store.list_prefix("x/")
        assert caught.value.hint is not None
        with pytest.raises(StoreError, match="repeat the same keys"):
            store.list_prefix("y/")


class _Versionless(BaseHTTPRequestHandler):
    """Files of a folder with ranges, and without ETags and times."""

    files: ClassVar[dict[str, bytes]]

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        whole = self.files.get(self.path[1:])
        span = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        body = whole or b""
        if span and span[1]:
            body = body[int(span[1]) : int(span[2] or len(body)) + 1]
        elif span:
            body = body[-int(span[2]) :]
        self.send_response(404 if whole is None else 206 if span else 200)
        if span and whole is not None:
            first = int(span[1]) if span[1] else len(whole) - len(body)
            self.send_header("Content-Range", f"bytes {first}-{first + len(body) - 1}/{len(whole)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Logs nothing."""


def test_web_servers_without_versions_are_read() -> None:
    memory = MemoryStore()
    array = frazil.create_array(memory, shape=(16, 16), dtype="int16", chunks=(2, 4), shards=(8, 8))
    array[:, :12] = np.arange(1, 13)
    files = {key: memory.get(key) or b"" for key in memory.list()}
    with serving(type("Handler", (_Versionless,), {"files": files})) as url:
        far = frazil.open_array(url)
        assert np.array_equal(far[...], array[...])
        assert np.array_equal(far[3:9, 3:9], array[3:9, 3:9])
        store = ObjectStore(url)
        held = store.fetch(["c/0/0"], np.array([[0, -4, 4]], np.int64))
        files["c/0/0"] += b"more"
        assert store.fetch(["c/0/0"], WHOLE, continue_from=held).status[0] == STALE, "it is another one"
        caching = CachingStore(store, 1000, validate=False)
        caching.get_partial_values([("c/0/0", (0, 4))])
        kept = caching.fetch(["c/0/0"], np.array([[0, 0, 4]], np.int64))
        del files["c/0/0"]
        assert caching.fetch(["c/0/0"], np.array([[0, 8, 4]], np.int64), continue_from=kept).status[0] == STALE
        assert store.fetch(["c/0/0"], WHOLE, continue_from=held).status[0] == STALE, (
            "which is no reason for fill values"
        )


def test_a_part_of_a_whole_response_does_not_keep_the_whole_in_memory(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(1000))
    with web_server(tmp_path, ranges=False) as url:
        fetched = ObjectStore(url).fetch(["a"], np.array([[0, 5, 10]], np.int64))
    buffer = memoryview(fetched.sources.buffers[0])
    assert (len(buffer), len(buffer.obj)) == (10, 10)  # type: ignore[arg-type]


def test_a_missing_server_is_an_error_at_once() -> None:
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_fork_must_open_it_again() -> None:
    store = ObjectStore(obstore.store.MemoryStore())
    store.set("a", b"1")
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            store.get("a")
        except StoreError as error:
            os._exit(0 if "spawn" in str(error) else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert store.get("a") == b"1"


@pytest.mark.parametrize("endpoint", ["127.0.0.1:9000", "localhost", "http://", "file:///etc", "me:secret@host"])
def test_an_invalid_endpoint(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInputError, match="endpoint is not a URL") as caught:
        ObjectStore("s3://bucket/x", endpoint=endpoint)
    assert "secret" not in str(caught.value).partition("Hint")[0]
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(InvalidInputError, match="endpoint is not a URL"):
        ObjectStore("s3://bucket/x")


def test_a_password_in_an_endpoint_is_not_shown() -> None:
    with pytest.raises(InvalidInputError, match="options of AzureStore") as caught:
        ObjectStore("az://container/x", endpoint="http://me:secret/x@host", account_name="a", account_key="YQ==")
    assert "secret" not in str(caught.value).partition("Hint")[0]


def test_places_with_a_sign_in_their_prefix_are_places_of_their_own() -> None:
    """Text before an "@" in a prefix is not a user."""
    stores = [
        ObjectStore(obstore.store.S3Store("bucket", prefix=prefix, region="eu-west-1"))
        for prefix in ("x", "me@x", "you@x")
    ]
    assert [store.url for store in stores] == ["s3://bucket/x", "s3://bucket/me@x", "s3://bucket/you@x"]
    assert len({store.identity for store in stores}) == 3
    assert len({address_of(store, "") for store in stores}) == 3
    web = [ObjectStore(obstore.store.HTTPStore(f"http://host.example/{path}")) for path in ("x", "me@x")]
    assert [store.url for store in web] == ["http://host.example/x", "http://host.example/me@x"]
    secret = ObjectStore(obstore.store.HTTPStore("http://user:word@host.example/x"))
    assert secret.url == "http://host.example/x"
    one, other = (
        ObjectStore(obstore.store.S3Store("bucket", endpoint=f"http://host.example/{path}", region="eu-west-1"))
        for path in ("x", "a@x")
    )
    assert one.identity != other.identity


# --- answers to the erasing of many keys ---------------------------------------------------------------------------------------------------


def erased(*codes: str | None) -> bytes:
    """The answer to DeleteObjects of x/0, x/1, ...: what went wrong with each, None: nothing."""
    rows = [
        f"<Deleted><Key>x/{i}</Key></Deleted>"
        if code is None
        else f"<Error><Key>x/{i}</Key><Code>{code}</Code><Message>no</Message></Error>"
        for i, code in enumerate(codes)
    ]
    return answer(200, f"<DeleteResult>{''.join(rows)}</DeleteResult>".encode())


def in_turn(*answers: bytes) -> Callable[[Request], bytes]:
    left = iter(answers)
    return lambda _: next(left)


def at(server: Scripted) -> ObjectStore:
    moment = timedelta(milliseconds=1)
    pauses = {"init_backoff": moment, "max_backoff": moment, "base": 2}
    retry = {"max_retries": 2, "backoff": pauses}
    return ObjectStore("s3://bucket/x", endpoint=server.url, skip_signature=True, retry_config=retry)


@pytest.mark.parametrize("code", ["SlowDown", "InternalError"])
def test_keys_that_a_busy_server_left_are_erased_then(code: str) -> None:
    with scripted(in_turn(erased(None, code), erased(code, None), erased(None, None))) as server:
        at(server).erase_values(["0", "1"])
    with scripted(in_turn(*[erased(None, code)] * 3)) as server:
        with pytest.raises(StoreError, match="could not be erased"):
            at(server).erase_values(["0", "1"])


def test_a_key_that_may_not_be_erased_is_an_error() -> None:
    with scripted(in_turn(erased(None, "AccessDenied"))) as server:
        with pytest.raises(StoreError, match="does not permit it") as caught:
            at(server).erase_values(["0", "1"])
        assert "credentials" in f"{caught.value.hint}"


def test_a_404_for_a_missing_bucket_is_an_error_of_erase() -> None:
    """As of a proxy: the objects are there."""
    there = answer(200, b"", ETag='"1"', Last_Modified="Mon, 01 Jan 2024 00:00:00 GMT")
    with scripted(lambda request: answer(404, b"no") if request.method == "POST" else there) as server:
        for keys in (["0"], ["0", "1"]):
            with pytest.raises(StoreError, match="could not be erased"):
                at(server).erase_values(keys)
    with scripted(lambda _: [answer(404, b"<Error><Code>NoSuchKey</Code></Error>", Connection="close")]) as server:
        at(server).erase_values(["0", "1"])


def test_a_panic_of_the_client_is_an_error() -> None:
    """It expects one row of an answer about one key."""
    with scripted(in_turn(erased(None, "AccessDenied"))) as server:
        with pytest.raises(StoreError, match="client of the object store stopped") as caught:
            at(server).erase("0")
        assert caught.value.key == "0"


@pytest.mark.parametrize("name", ["get", "put", "delete", "copy", "list", "list_with_delimiter_async"])
def test_a_lack_of_memory_is_no_failure_of_the_server(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is raised at once. Formerly several attempts followed, and it was reported as a network failure."""
    store = ObjectStore(obstore.store.MemoryStore())
    version = store.put("a", b"1")
    calls = {
        "get": [lambda: store.get("a"), lambda: store.exists("a"), lambda: store.get_partial_values([("a", (0, 1))])],
        "put": [lambda: store.set("a", b"2"), lambda: store.create("b", b"2"), lambda: store.put("a", b"2", version)],
        "delete": [lambda: store.erase("a"), lambda: store.erase_values(["a", "b"])],
        "copy": [lambda: store.copy_in(["b"], store, ["a"], shares=True)],
        "list": [store.list, lambda: store.list_prefix("a/")],
        "list_with_delimiter_async": [lambda: store.list_dir("")],
    }[name]
    tried: list[object] = []

    def fail(*arguments: object, **_: object) -> object:
        tried.append(arguments)
        raise MemoryError

    monkeypatch.setattr(obstore, name, fail)
    for call in calls:
        tried.clear()
        with pytest.raises(MemoryError):
            call()
        assert 1 <= len(tried) <= 2, "once for each key"
    monkeypatch.undo()
    assert store.get_versioned("a") == (b"1", version)


def test_a_body_without_room_is_requested_once(monkeypatch: pytest.MonkeyPatch) -> None:
    store = ObjectStore(obstore.store.MemoryStore())
    store.set("a", bytes(2**22))

    def fail(_: int) -> object:
        raise MemoryError

    monkeypatch.setattr("frazil.stores.objects.range_requests.empty_buffer", fail)
    with pytest.raises(MemoryError):
        store.get_partial_values([("a", (0, 2**22))])
