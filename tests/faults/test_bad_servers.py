"""Real servers that a proxy makes busy, silent, cut off, wrong or refusing, and servers that are not object stores. An unavailable object is an error, in one
line, without a secret; it is never a fill value, and retries end."""

from __future__ import annotations

import socket
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from tests.faults.faulty_buckets import QUICK, FaultyBucket
from tests.servers.buckets import S3, Buckets
from tests.servers.proxy import FaultProxy, Request
from tests.servers.web import serving

import frazil
from frazil.errors import StoreError
from frazil.stores.objects import object_store
from frazil.stores.objects.object_store import ObjectStore


@pytest.fixture(params=["s3", "azure"])
def server(request: pytest.FixtureRequest) -> Buckets:
    return request.getfixturevalue(request.param)  # type: ignore[no-any-return]


@pytest.fixture
def proxy(server: Buckets) -> Iterator[FaultProxy]:
    with FaultProxy(server.endpoint) as proxy:
        yield proxy


@pytest.fixture
def bucket(server: Buckets, proxy: FaultProxy) -> FaultyBucket:
    return FaultyBucket(server, proxy)


def filled(bucket: FaultyBucket) -> None:
    """Arrays without fill values among their elements, in chunks and in shards, with and without checksums."""
    group = frazil.create_group(bucket.direct)
    values = np.arange(1, 1025, dtype="i4").reshape(32, 32)
    group.create_array("plain", shape=(32, 32), dtype="i4", chunks=(16, 16), codecs=["bytes"])[...] = values
    group.create_array("packed", shape=(32, 32), dtype="i4", chunks=(16, 16))[...] = values
    group.create_array("shards", shape=(32, 32), dtype="i4", chunks=(4, 4), shards=(16, 16), codecs=["bytes"])[...] = (
        values
    )


def read_all(store: ObjectStore) -> None:
    """Reads in all ways; the results are right."""
    values = np.arange(1, 1025, dtype="i4").reshape(32, 32)
    group = frazil.open_group(store, "r")
    for name in ("plain", "packed", "shards"):
        array = group[name]
        assert isinstance(array, frazil.Array)
        np.testing.assert_array_equal(array[...], values)
        np.testing.assert_array_equal(array[3:21:2, 5], values[3:21:2, 5])
        assert array[31, 31] == 1024
    assert sorted(group) == ["packed", "plain", "shards"]


@pytest.mark.parametrize("fault", ["503", "429", "500", "lost answer", "no answer", "cut body"])
def test_requests_are_repeated_after_passing_faults(bucket: FaultyBucket, fault: str) -> None:
    filled(bucket)
    tries: Counter[tuple[str, str, str | None]] = Counter()

    def first(request: Request) -> bool:
        """The first of each kind of request, and every fourth: a request is tried three times."""
        kind = request.method, request.path, request.headers.get("range")
        tries[kind] += 1
        return tries[kind] % 4 == 1

    bucket.proxy.fail(first, fault, None)
    read_all(bucket.through)
    assert len(tries) > 8


def test_a_list_that_breaks_off_is_requested_again(bucket: FaultyBucket) -> None:
    filled(bucket)
    group = frazil.open_group(bucket.through)
    for names in (lambda: sorted(group), lambda: [key for key in bucket.through.list() if key.endswith("/zarr.json")]):
        bucket.proxy.fail(lambda request: "=list" in request.path or "list-type" in request.path, "cut body")
        assert len(names()) == 3


def test_an_answer_for_an_absent_key_that_breaks_off_is_requested_again(bucket: FaultyBucket) -> None:
    """Such answers have a body, too. Each commit looks for a branch file that is not there."""
    filled(bucket)
    bucket.proxy.fail("GET absent", "cut body", 2)
    assert bucket.through.get("absent") is None
    assert len(bucket.proxy.requests_matching("GET absent")) == 3


@pytest.mark.parametrize("fault", ["503", "no answer", "cut body", "403", "400"])
def test_lasting_faults_are_errors_and_never_fill_values(bucket: FaultyBucket, fault: str) -> None:
    """An error of ours, after a few tries: distinct from a missing object, and never a fill value."""
    filled(bucket)
    group = frazil.open_group(bucket.through, "r+")
    arrays = [group[name] for name in ("plain", "packed", "shards")]
    bucket.proxy.fail(lambda request: True, fault, None)
    calls: list[Callable[[], object]] = [lambda array=array: array[...] for array in arrays]  # type: ignore[misc]
    calls += [lambda array=array: array[5, 5] for array in arrays]  # type: ignore[misc]
    calls += [
        lambda: frazil.open_array(bucket.through, "r", path="plain"),
        lambda: bucket.through.get("nothing"),
        lambda: bucket.through.get_partial_values([("plain/zarr.json", (-5, 5))]),
        bucket.through.list,
        lambda: bucket.through.list_dir(""),
    ]
    if fault != "cut body":  # an answer without a body cannot be cut
        calls += [
            lambda: arrays[2].__setitem__((0, 0), 7),  # type: ignore[union-attr]
            lambda: bucket.through.exists("plain/zarr.json"),
            lambda: bucket.through.set("new", b"1"),
            lambda: bucket.through.create("new", b"1"),
            lambda: bucket.through.put("plain/zarr.json", b"1", b"version"),
            lambda: bucket.through.erase("new"),
        ]
    for call in calls:
        before = len(bucket.proxy.requests)
        error = bucket.refused(call)
        assert isinstance(error, StoreError)
        assert 1 <= len(bucket.proxy.requests) - before < 60
    bucket.proxy.mend()
    read_all(bucket.direct)
    read_all(bucket.through)


def test_refusals_hint_what_to_check(bucket: FaultyBucket) -> None:
    filled(bucket)
    for status in ("403", "400"):
        bucket.proxy.fail(lambda request: True, status, None)
        before = len(bucket.proxy.requests)
        error = bucket.refused(lambda: bucket.through.get("plain/zarr.json"))
        assert error.hint is not None
        assert "credentials" in error.hint or "credentials" in str(error)
        assert len(bucket.proxy.requests) == before + 1, "a refusal is no reason to ask again"
        bucket.proxy.mend()


def test_answers_that_are_too_short_are_errors(bucket: FaultyBucket) -> None:
    """An answer that is a byte too short is an error, even without a checksum."""
    filled(bucket)
    group = frazil.open_group(bucket.through, "r")
    bucket.proxy.fail(lambda request: request.method == "GET" and "/c/" in request.path, "wrong length", None)
    for name in ("plain", "packed", "shards"):
        array = group[name]
        assert isinstance(array, frazil.Array)
        bucket.refused(lambda array=array: array[...])  # type: ignore[misc]
        bucket.refused(lambda array=array: array[7, 7])  # type: ignore[misc]
    bucket.proxy.mend()
    read_all(bucket.through)


def test_large_values_go_in_parts(bucket: FaultyBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts whose answers are lost are sent again; if one cannot be sent, no object is stored."""
    monkeypatch.setattr(object_store, "MULTIPART", 2**24)
    value = np.random.default_rng(5).bytes(2**24 + 7)  # three parts
    part = "PUT partNumber=|comp=block(&|$)"
    bucket.proxy.fail(part, "lost answer", 2)
    bucket.through.set("large", value)
    assert len(bucket.proxy.requests_matching(part)) > 4
    assert bucket.direct.get("large") == value
    bucket.proxy.fail(part, "503", None)
    assert isinstance(bucket.refused(lambda: bucket.through.set("other", value)), StoreError)
    assert bucket.direct.list() == ["large"]


def test_requests_without_an_answer_end_and_are_repeated_if_harmless(bucket: FaultyBucket) -> None:
    """A request without an answer ends after its timeout, and is repeated if that is harmless."""
    filled(bucket)
    store = bucket.reached(client_options={"timeout": "1s"})
    bucket.proxy.fail("GET zarr.json", "stall")
    assert store.get("zarr.json") == bucket.direct.get("zarr.json")
    bucket.proxy.fail("PUT /created", "stall", 1)
    try:
        assert store.create("created", b"1") is True
    except StoreError:
        assert bucket.direct.get("created") is None
    bucket.proxy.fail("GET zarr.json", "stall", None)
    store = bucket.reached(client_options={"timeout": "100ms"})
    assert isinstance(bucket.refused(lambda: store.get("zarr.json")), StoreError)


def test_a_list_that_is_cut_is_no_short_list(bucket: FaultyBucket) -> None:
    filled(bucket)
    keys, level = bucket.direct.list(), bucket.direct.list_dir("")
    for fault in ("cut body", "wrong length"):
        for call, expected in ((bucket.through.list, keys), (lambda: bucket.through.list_dir(""), level)):
            bucket.proxy.fail("GET list", fault, 1)
            try:
                assert call() == expected
            except StoreError:
                assert fault == "wrong length", "a list that is cut is requested again"
        bucket.proxy.fail("GET list", fault, None)
        bucket.refused(bucket.through.list)
        bucket.proxy.mend()


@pytest.mark.parametrize("lasting", [False, True])
def test_a_collection_removes_nothing_if_lists_are_error_documents(bucket: FaultyBucket, lasting: bool) -> None:
    """For the client those of S3 are empty: there would be no branches."""
    with (repo := frazil.Repository.create(bucket.direct)).transaction(message="first") as root:
        root.create_array("a", data=np.arange(8), chunks=(2,))
    repo.create_branch("dev", repo.lookup("main"))
    repo = frazil.Repository.open(bucket.through)
    bucket.proxy.fail("GET list.*refs%2F(&|$)", "200", None if lasting else 1)
    try:
        repo.garbage_collect(now=True)
    except StoreError:
        assert lasting or bucket.server.scheme == "az"
    bucket.proxy.mend()
    array = frazil.Repository.open(bucket.direct).readonly_session("dev").root["a"]
    assert array[...].tolist() == list(range(8))  # type: ignore[call-overload, union-attr]


def test_a_move_loses_nothing_if_a_list_is_an_error_document(bucket: FaultyBucket) -> None:
    frazil.create_group(bucket.direct).create_array("a", data=np.arange(8), chunks=(2,))
    group = frazil.open_group(bucket.through, "r+")
    bucket.proxy.fail("GET list.*x%2Fa%2F", "200")
    if bucket.server.scheme == "az":
        bucket.refused(lambda: group.move("a", "b"))
    else:
        group.move("a", "b")
    name = "a" if bucket.server.scheme == "az" else "b"
    assert frazil.open_group(bucket.direct)[name][...].tolist() == list(range(8))  # type: ignore[call-overload, union-attr]


def test_a_move_and_a_copy_are_refused_if_all_lists_are_error_documents(bucket: FaultyBucket, tmp_path: Path) -> None:
    frazil.create_group(bucket.direct).create_array("a", data=np.arange(8), chunks=(2,))
    group = frazil.open_group(bucket.through, "r+")
    bucket.proxy.fail("GET list.*x%2Fa%2F", "200", None)
    bucket.refused(lambda: group.move("a", "b"))
    bucket.proxy.mend()
    assert frazil.open_group(bucket.direct)["a"][...].tolist() == list(range(8))  # type: ignore[call-overload, union-attr]
    lists = count(1)
    bucket.proxy.fail(lambda request: "list" in request.path and next(lists) > 2, "200", None)  # after those of checks
    bucket.refused(lambda: frazil.copy(bucket.through, tmp_path / "copy"))


# --- servers that are not object stores ------------------------------------------------------------------------------------------------


def test_refused_connections(s3: S3) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        endpoint = f"http://127.0.0.1:{taken.getsockname()[1]}"
    store = s3.store("bucket", endpoint=endpoint, **QUICK)
    with pytest.raises(StoreError) as caught:
        store.get("a")
    assert s3.secret not in "".join(traceback.format_exception(caught.value))
    assert caught.value.hint is not None


@pytest.mark.parametrize("server", ["s3"], indirect=True)
def test_missing_keys(bucket: FaultyBucket) -> None:
    """A missing bucket is not an empty bucket."""
    other = bucket.server.store("no-such-bucket", "x", endpoint=bucket.proxy.url, **QUICK)
    for call in (lambda: other.get("a"), other.list, lambda: other.set("a", b""), lambda: other.create("a", b"")):
        assert "bucket" in f"{bucket.refused(call)}"


@pytest.mark.parametrize("server", ["s3"], indirect=True)
@pytest.mark.parametrize("wrong", [{"secret_access_key": "wrong"}, {"access_key_id": "nobody"}])
def test_wrong_credentials(bucket: FaultyBucket, wrong: dict[str, str]) -> None:
    store = bucket.reached(**wrong)
    for call in (lambda: store.get("a"), store.list, lambda: store.set("a", b"")):
        error = bucket.refused(call)
        assert "wrong" not in f"{error}"
        assert "credentials" in f"{error} {error.hint}"


class Babbling(BaseHTTPRequestHandler):
    """Answers 200 with a meaningless body, or redirects all requests."""

    protocol_version = "HTTP/1.1"
    elsewhere: str | None = None
    heard: list[str]

    def do_GET(self) -> None:
        self.heard.append(self.headers.get("Authorization", ""))
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b"<html>Welcome to the guest network</html>"
        self.send_response(200 if self.elsewhere is None else 307)
        if self.elsewhere is not None:
            self.send_header("Location", self.elsewhere + self.path)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_PUT = do_POST = do_HEAD = do_DELETE = do_GET

    def log_message(self, *words: object) -> None: ...


def test_meaningless_answers_of_a_bucket_are_errors(s3: S3) -> None:
    """The client accepts any XML as a listing: it is no empty one."""
    with serving(type("Handler", (Babbling,), {"heard": []})) as url:
        store = s3.store("bucket", "x", endpoint=url, **QUICK)
        for call in (
            lambda: store.create("a", b"1"),
            lambda: store.get("a"),
            lambda: store.exists("a"),
            store.list,
            lambda: store.list_dir(""),
            lambda: store.is_empty("in/"),
            lambda: frazil.open(store, "r"),
            lambda: frazil.copy(store, {}),
        ):
            with pytest.raises(StoreError) as caught:
                call()
            assert s3.secret not in f"{caught.value}"


def test_redirects_elsewhere(s3: S3) -> None:
    """No other server learns the credentials, and no data for the server is written elsewhere."""
    heard: list[str] = []
    with serving(type("Handler", (Babbling,), {"heard": heard})) as other:
        other = other.replace("127.0.0.1", "localhost")
        with serving(type("Handler", (Babbling,), {"heard": [], "elsewhere": other})) as url:
            store = s3.store("bucket", "x", endpoint=url, **QUICK)
            for call in (lambda: store.get("a"), lambda: store.set("a", b"1"), lambda: store.create("a", b"1")):
                with pytest.raises(StoreError) as caught:
                    call()
                assert s3.secret not in f"{caught.value}"
    assert not any(heard)
