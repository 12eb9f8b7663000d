"""Ranges from object stores with wrong answers: no answer is larger than the request, and large objects are read in parts of one version."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np
import obstore
import pytest
from tests.faults.faulty_buckets import QUICK
from tests.no_backoff import no_pauses
from tests.reference_cycles import is_freed
from tests.servers.scripted import Request, answer, scripted

from frazil.errors import StoreError
from frazil.stores.objects.object_store import ObjectStore
from frazil.stores.values import STALE

HUGE = 10**12
HEADERS = {"ETag": '"1"', "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}


def bucket(url: str, **options: object) -> ObjectStore:
    return ObjectStore("s3://bucket", endpoint=url, skip_signature=True, region="x", **{**QUICK, **options})


def endless(head: bytes) -> Iterator[bytes]:
    yield head
    while True:
        yield bytes(2**16)


def lies(headers_of: Callable[[str], dict[str, object]]) -> Callable[[Request], Iterator[bytes]]:
    """Answers every request of a range with these headers, and endless bytes."""
    return lambda request: endless(answer(206, **HEADERS, **headers_of(request.headers.get("range", ""))))


def test_another_range_than_the_requested_one() -> None:
    with scripted(lambda _: answer(206, bytes(10), **HEADERS, Content_Range="bytes 0-9/10")) as server:
        with pytest.raises(StoreError, match="the answer is not one of an object store") as caught:
            bucket(server.url).get_partial_values([("a", (2, 3))])
    assert "not a proxy" in f"{caught.value.hint}"


@pytest.mark.parametrize(("start", "length"), [(0, -1), (0, 100), (5, 10), (-20, 20), (-HUGE, HUGE), (7, -1)])
def test_lengths_that_no_memory_has(start: int, length: int) -> None:
    """The body claims a length of 10^12 bytes, and sends as many as the client reads."""

    def headers_of(requested: str) -> dict[str, object]:
        found = re.fullmatch(r"bytes=(\d*)-(\d*)", requested)
        assert found is not None, "every request names the range that it wants"
        first, last = found.groups()
        if not first:
            return {"Content_Length": HUGE, "Content_Range": f"bytes {HUGE - int(last)}-{HUGE - 1}/{HUGE}"}
        end = min(int(last), HUGE - 1) if last else HUGE - 1
        return {"Content_Length": HUGE, "Content_Range": f"bytes {first}-{end}/{HUGE}"}

    with scripted(lies(headers_of)) as server, pytest.raises(StoreError) as caught:
        bucket(server.url, bytes_in_flight=2**20).fetch(["a"], np.array([[0, start, length]], np.int64))
    assert caught.value.key == "a"


def test_servers_without_ranges_are_refused() -> None:
    """Nor is an unrequested part taken for the whole object, as every request is for a part."""
    with scripted(lambda request: endless(answer(200, **HEADERS, Content_Length=HUGE))) as server:
        with pytest.raises(StoreError):
            bucket(server.url).get("a")
    with scripted(lambda request: answer(206, bytes(10), **HEADERS, Content_Range="bytes 0-9/100")) as server:
        with pytest.raises(StoreError):
            bucket(server.url).get("a")


def test_large_objects_come_in_parts() -> None:
    memory = obstore.store.MemoryStore()
    store = ObjectStore(memory, bytes_in_flight=1000)
    value = np.random.default_rng(2).bytes(4321)
    store.set("a", value)
    store.set("empty", b"")
    assert store.get("a") == value
    assert store.get("empty") == b""
    assert store.get_partial_values([("a", (100, None)), ("a", (-3000, None)), ("a", (4321, None))]) == [
        value[100:],
        value[-3000:],
        b"",
    ]


def test_parts_are_of_one_version() -> None:
    """An object that is replaced between two parts is read again."""
    store = ObjectStore(obstore.store.MemoryStore(), bytes_in_flight=1000)
    old, new = b"o" * 2500, b"n" * 2600
    store.set("a", old)
    get, parts = obstore.get, iter(range(100))

    def replacing(*arguments: object, **options: object) -> object:
        if next(parts) == 1:
            store.set("a", new)
        return get(*arguments, **options)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(obstore, "get", replacing)
        assert store.get("a") == new


@pytest.mark.parametrize("limit", [2, 100])
def test_an_object_that_becomes_longer_than_the_range_that_it_had_not(limit: int) -> None:
    """The answer had no bytes, but the size of the new object: a ValueError, or too few bytes."""
    seen: list[str] = []

    def script(request: Request) -> bytes:
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("range", ""))
        assert found is not None
        seen.append(found[0])
        if len(seen) == 1:
            return answer(416)
        first, last = int(found[1]), min(int(found[2]), 8)
        return answer(206, b"abcdefghi"[first : last + 1], **HEADERS, Content_Range=f"bytes {first}-{last}/9")

    with scripted(script) as server, no_pauses():
        assert bucket(server.url, bytes_in_flight=limit).get_partial_values([("a", (5, None))]) == [b"fghi"]
    assert seen[:2] == [f"bytes=5-{4 + limit}", "bytes=0-0"]


@pytest.mark.parametrize("option", ["read_timeout", "timeout"])
def test_a_bucket_that_never_answers(option: str) -> None:
    """As in docs/object-stores.md: the time-outs and the number of attempts are options."""
    with scripted(lambda request: None) as server:
        store = bucket(
            server.url, client_options={option: "250ms", "allow_http": True}, retry_config={"max_retries": 1}
        )
        with pytest.raises(StoreError):
            store.get("a")
        assert len(server.requests) >= 2
        if option == "timeout":
            for write in (lambda: store.set("a", b"1"), lambda: store.create("a", b"1")):
                with pytest.raises(StoreError):
                    write()


ARCHIVED = b"<Error><Code>InvalidObjectState</Code><Message>not valid for the storage class</Message></Error>"


def heads(get: bytes, head: bytes) -> Callable[[Request], bytes]:
    """Answers of a server to GET and to HEAD."""
    return lambda request: {"GET": get, "HEAD": head}[request.method]


@pytest.mark.parametrize(
    "get",
    [answer(403, ARCHIVED), answer(200, bytes(100), **HEADERS)],
    ids=["archived", "without ranges"],
)
def test_objects_whose_bytes_are_not_sent_are_looked_up(get: bytes) -> None:
    with scripted(heads(get, answer(200, **{**HEADERS, "Content_Length": 100}))) as server:
        store = bucket(server.url)
        assert store.exists("a")
        found = store.fetch(["a"], np.zeros((0, 3), np.int64))
        assert (found.versions[0], found.sizes.tolist()) == (b'"1"', [100])
        assert store.fetch(["a"], np.zeros((0, 3), np.int64), expect=[b'"2"']).status[0] == STALE
        with pytest.raises(StoreError) as caught:
            store.get("a")
        assert ("archived" in str(caught.value.hint)) == (b"403" in get[:20])


@pytest.mark.parametrize("status", [404, 403, 400])
@pytest.mark.parametrize("get", [answer(403, ARCHIVED), answer(200, bytes(100), **HEADERS)])
def test_a_head_that_fails_makes_nothing_absent(get: bytes, status: int) -> None:
    with scripted(heads(get, answer(status))) as server, pytest.raises(StoreError) as caught:
        bucket(server.url).exists("a")
    assert caught.value.key == "a"


@pytest.mark.parametrize(
    "get",
    [
        answer(403, b"<Error><Code>AccessDenied</Code></Error>"),
        answer(404, b"<html>nothing here</html>"),
        answer(404),
        answer(400, b"<Error><Code>InvalidRequest</Code></Error>"),
    ],
)
def test_other_refusals_send_no_head_request(get: bytes) -> None:
    with scripted(heads(get, answer(200, **{**HEADERS, "Content_Length": 100}))) as server:
        with pytest.raises(StoreError):
            bucket(server.url).exists("a")
        assert {request.method for request in server.requests} == {"GET"}


@pytest.mark.parametrize(
    "response",
    [
        answer(500),
        answer(206, bytes(4), **{**HEADERS, "Content_Range": "bytes 0-9/100", "Content_Length": 10}) + b"",
        answer(206, bytes(4), **HEADERS, Content_Range="bytes 0-9/100"),
    ],
)
def test_errors_are_freed_with_their_last_reference(response: bytes) -> None:
    with scripted(lambda request: iter([response])) as server, no_pauses():
        for store in (bucket(server.url), ObjectStore(server.url, **QUICK)):
            assert is_freed(StoreError, lambda store=store: store.get_partial_values([("a", (0, 10))]))  # type: ignore[misc]
