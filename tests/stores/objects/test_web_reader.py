"""Files of web servers with wrong, stalled, redirected or unrequested answers: no answer is larger than the request, and none is taken for another one."""

from __future__ import annotations

import json
import traceback
import tracemalloc
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from email.utils import formatdate
from itertools import chain, count, repeat
from pathlib import Path
from threading import Barrier, Lock

import numpy as np
import pytest
from tests.no_backoff import no_pauses
from tests.servers.scripted import Request, answer, scripted

import frazil
from frazil.errors import RedirectWarning, StoreError
from frazil.stores import MemoryStore
from frazil.stores.caches.disk_cache import DiskCache
from frazil.stores.objects.object_store import ObjectStore
from frazil.stores.objects.web_client import WebClient, WebConnections
from frazil.stores.objects.web_options import WebOptions
from frazil.stores.values import FOUND, STALE, WHOLE

MOMENT = timedelta(milliseconds=1)
QUICK = {"retry_config": {"max_retries": 1, "backoff": {"init_backoff": MOMENT, "max_backoff": 2 * MOMENT, "base": 2}}}
HUGE = 10**12
BODY = bytes(range(100))


def span(start: int, length: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return np.array([[0, start, length]], np.int64)


def refused(store: ObjectStore, start: int = 0, length: int = -1, match: str | None = None) -> StoreError:
    with pytest.raises(StoreError, match=match) as caught:
        store.fetch(["a"], span(start, length))
    assert caught.value.key == "a"
    assert "\n" not in caught.value.args[0]
    return caught.value


def endless(head: bytes) -> Iterator[bytes]:
    """An answer whose body never ends."""
    yield head
    while True:
        yield bytes(2**16)


@pytest.mark.parametrize("length", [HUGE, None])
@pytest.mark.parametrize("requested", [(0, -1), (0, 100), (5, 10), (-20, 20), (7, -1)])
def test_a_body_without_an_end_is_never_taken(length: int | None, requested: tuple[int, int]) -> None:
    """From a server without ranges: only the requested bytes are read; a request for the whole object is refused."""
    head = answer(200, Content_Length=length, ETag='"1"')
    with scripted(lambda request: head if request.method == "HEAD" else endless(head)) as server:
        store = ObjectStore(server.url, bytes_in_flight=2**20, **QUICK)
        tracemalloc.start()
        if requested[0] >= 0 and requested[1] > 0:
            fetched = store.fetch(["a"], span(*requested))
            assert bytes(fetched.sources.buffers[0]) == bytes(requested[1])
        else:
            refused(store, *requested)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 2**24


@pytest.mark.parametrize(
    ("requested", "expected"),
    [((0, -1), BODY), ((10, 50), BODY[10:60]), ((-20, 20), BODY[-20:])],
    ids=["all", "inner", "end"],
)
@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_cut_is_requested_again(chunked: bool, requested: tuple[int, int], expected: bytes) -> None:
    """The server closes the connection in the middle of a body, the first time."""

    def script(request: Request) -> bytes | Iterator[bytes]:
        if len(server.requests) > 1:
            return answer(200, BODY, ETag='"1"')
        if chunked:
            return iter([answer(200, Content_Length=None, Transfer_Encoding="chunked", ETag='"1"'), b"40\r\nabc"])
        return iter([answer(200, Content_Length=len(BODY), ETag='"1"'), BODY[:5]])

    with scripted(script) as server:
        fetched = ObjectStore(server.url, **QUICK).fetch(["a"], span(*requested))
        assert bytes(fetched.sources.buffers[0]) == expected
        assert len(server.requests) == 2


def test_a_body_that_is_always_cut_is_an_error() -> None:
    with scripted(lambda _: iter([answer(200, Content_Length=100, ETag='"1"'), BODY[:5]])) as server:
        refused(ObjectStore(server.url, **QUICK), match="ended before the response did")


def test_the_length_of_a_range_is_compared_with_the_requested_one() -> None:
    def script(request: Request) -> bytes | Iterator[bytes]:
        return endless(answer(206, Content_Length=HUGE, Content_Range=f"bytes 0-9/{HUGE}", ETag='"1"'))

    with scripted(script) as server:
        refused(ObjectStore(server.url, **QUICK), 0, 10, "shorter than their headers state")


@pytest.mark.parametrize(
    "content_range", ["bytes 0-99/100", "bytes 0-9/*", "bytes 11-20/100", "bytes 10-29/100", "bytes 10-", ""]
)
def test_another_range_than_the_requested_one(content_range: str) -> None:
    with scripted(lambda _: answer(206, BODY[10:20], Content_Range=content_range or None, ETag='"1"')) as server:
        refused(ObjectStore(server.url, **QUICK), 10, 10)


def test_the_end_of_an_empty_file_as_programs_in_go_send_it() -> None:
    with scripted(lambda _: answer(206, b"", Content_Range="bytes 0--1/0", ETag='"1"')) as server:
        assert ObjectStore(server.url).get_partial_values([("a", (-4, None))]) == [b""]


def test_an_unrequested_part_is_not_the_whole() -> None:
    def script(request: Request) -> bytes:
        assert "range" not in request.headers
        content_range = "bytes 0-9/100" if request.path == "/a" else "bytes 0-9/10"
        return answer(206, BODY[:10], Content_Range=content_range, ETag='"1"')

    with scripted(script) as server:
        store = ObjectStore(server.url, **QUICK)
        refused(store, match="not requested")
        assert store.get("b") == BODY[:10]  # which is the whole


def test_documents_and_chunks_are_no_larger_than_they_can_be() -> None:
    """The document determines the size of a chunk, whatever the server claims; and no document is large."""
    files = MemoryStore()
    frazil.create_array(files, shape=(64,), dtype="u1", chunks=(64,), codecs=["bytes"])[...] = 7

    def script(request: Request) -> bytes:
        known = files.get(request.path[1:])
        large = request.path.endswith("c/0")
        return answer(404) if known is None else answer(200, bytes(2**21) if large else known, ETag='"1"')

    small = frazil.Runtime(bytes_in_flight=2**10)
    with scripted(script) as server:
        array = frazil.open_array(server.url, runtime=small)
        with pytest.raises(StoreError, match="2097152 bytes"):
            array[...]
    with scripted(lambda _: answer(200, b" " * (2**24 + 1), ETag='"1"')) as server:
        with pytest.raises(StoreError, match="16777217 bytes"):
            frazil.open(server.url, runtime=small)


def test_a_large_object_is_read_whole_where_its_user_asks() -> None:
    value = np.random.default_rng(1).bytes(3 * 2**20)
    with scripted(lambda _: answer(200, value, ETag='"1"')) as server:
        assert ObjectStore(server.url, bytes_in_flight=2**10).get("a") == value


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nabcde",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabcde",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 2**17,
        b"HTTP/1.1 999 OK\r\n\r\n",
        b"ICY 200 OK\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 50,
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
        b"",
    ],
)
def test_invalid_answers(head: bytes) -> None:
    with scripted(lambda _: [head]) as server:
        refused(ObjectStore(server.url, **QUICK))


@pytest.mark.parametrize("requested", [(0, -1), (0, 0), (5, 10), (-5, 5)])
def test_an_encoding_that_was_not_requested(requested: tuple[int, int]) -> None:
    """A gzipped document is invalid, and a range of it is not a range of the object. Uploads leave names that are no encodings, and error pages may have
    any."""
    heads = {
        "gzip": "sends it encoded .Content-Encoding: gzip.",
        "identity, BR": "Content-Encoding: br",
        "aws-chunked": None,
        "identity": None,
    }
    for encoding, match in heads.items():
        head = {"Content_Length": len(BODY), "Content_Encoding": encoding, "ETag": '"1"'}
        with scripted(lambda request: answer(200, BODY if request.method == "GET" else b"", **head)) as server:  # noqa: B023
            store = ObjectStore(server.url, **QUICK)
            if match is not None:
                refused(store, *requested, match=match)
            else:
                assert store.fetch(["a"], span(*requested)).sizes.tolist() == [100]
    with scripted(lambda request: answer(404, BODY, Content_Encoding="gzip")) as server:
        assert not ObjectStore(server.url, **QUICK).exists("a")


def test_bodies_in_chunks_and_interim_answers() -> None:
    script = [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\nETag: "1"\r\n\r\n',
        *(b"%x;x=y\r\n%b\r\n" % (len(BODY[at : at + 7]), BODY[at : at + 7]) for at in range(0, 100, 7)),
        b"0\r\nTrailer: x\r\n\r\n",
    ]
    with scripted(lambda _: b"".join(script)) as server:
        store = ObjectStore(server.url, **QUICK)
        assert store.get("a") == BODY
        assert store.get_partial_values([("a", (10, 5)), ("a", (-5, None)), ("a", (90, None))]) == [
            BODY[10:15],
            BODY[-5:],
            BODY[90:],
        ]


def test_connections_are_used_again_and_those_that_were_closed_are_no_failure() -> None:
    closing = iter([False, True, False, False])
    whole = answer(200, BODY, ETag='"1"')
    with scripted(lambda _: [whole] if next(closing) else whole) as server:
        store = ObjectStore(server.url, requests_in_flight=1, retry_config={"max_retries": 0})
        for _ in range(4):
            assert store.get("a") == BODY
        assert server.connections == 2


# --- redirects -----------------------------------------------------------------------------------------------------------------------------


def hierarchy() -> MemoryStore:
    files = MemoryStore()
    frazil.create_array(files, shape=(4,), dtype="u1", chunks=(4,), codecs=["bytes"])[...] = 7
    return files


def serves(files: MemoryStore) -> object:
    def script(request: Request) -> bytes:
        known = files.get(request.path.partition("?")[0].rpartition("x.zarr/")[2])
        return answer(404) if known is None else answer(200, known, ETag='"1"')

    return script


def test_a_redirect_is_reported() -> None:
    with scripted(serves(hierarchy())) as there:  # type: ignore[arg-type]
        target = f"{there.url}/x.zarr"
        with scripted(lambda request: answer(302, Location=f"{target}{request.path}?signature=secret")) as here:
            with pytest.warns(
                RedirectWarning, match=f"{here.url}/zarr.json was redirected.*{target}/zarr.json"
            ) as recorded:
                array = frazil.open_array(here.url)
            assert array[...].tolist() == [7] * 4  # the same server again: no second warning, which would be an error
            assert len(recorded) == 1
            assert "secret" not in str(recorded[0].message)
            assert recorded[0].filename == __file__
            with pytest.raises(StoreError, match=f"redirects to {target}") as caught:
                frazil.open_array(ObjectStore(here.url, redirects=[]))
            assert "secret" not in f"{caught.value}"
            assert frazil.open_array(ObjectStore(here.url, redirects=[f"{there.url}/x.zarr/"]))[0] == 7
            for other in ("/y/", "/x.zarr/c/", "/x.zar/"):
                with pytest.raises(StoreError, match="which is not allowed"):
                    frazil.open_array(ObjectStore(here.url, redirects=[there.url + other]))


def test_a_redirect_of_many_threads_is_reported_once() -> None:
    client = WebClient("http://here.example", WebConnections(WebOptions()), None)
    barrier, told, count = Barrier(8), deque[tuple[str, str]](), 200

    def act(number: int) -> None:
        barrier.wait()
        for i in range(count):
            client._warn_of_redirect("http://here.example/a", f"http://there-{i % 50}-{number % 4}.example/a")
            told.extend(client.take_moved())

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(act, range(8)))
    assert len(told) == len(set(told)) == 200


def test_headers_of_a_server_are_not_for_others() -> None:
    with scripted(lambda _: answer(200, BODY, ETag='"1"')) as there:
        with scripted(lambda request: answer(307, Location=f"{there.url}{request.path}")) as here:
            store = ObjectStore(here.url, client_options={"default_headers": {"Authorization": "Bearer secret"}})
            with pytest.warns(RedirectWarning):
                assert store.get("a") == BODY
    assert [request.headers.get("authorization") for request in (*here.requests, *there.requests)] == [
        "Bearer secret",
        None,
    ]


@pytest.mark.parametrize(
    ("location", "match"),
    [
        ("ftp://127.0.0.1/a", "not an address of a web server"),
        ("file:///etc/passwd", "not an address of a web server"),
        ("http://user:secret@127.0.0.1/a", "not an address of a web server"),
        (None, "not an address of a web server"),
        ("http://[", "not an address of a web server"),
        ("/a", "too many times"),
    ],
)
def test_redirects_to_nowhere(location: str | None, match: str) -> None:
    with scripted(lambda _: answer(301, Location=location)) as server:
        error = refused(ObjectStore(server.url, **QUICK), match=match)
    assert "secret" not in f"{error}"


# --- times as versions -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tag", [None, '"6553f100-20000"'])
def test_a_time_of_change_that_is_just_over_is_no_version_to_remember(tmp_path: Path, tag: str | None) -> None:
    """A file that is replaced twice in one second has one time: nothing of the first version is cached on disk. So has the ETag of nginx, time and size."""
    values, now = [bytes(2**17)], [1_700_000_000]

    def script(request: Request) -> bytes:
        changed, date = formatdate(1_700_000_000, usegmt=True), formatdate(now[0], usegmt=True)
        return answer(200, values[0], ETag=tag, Last_Modified=changed, Date=date)

    with scripted(script) as server:
        store = ObjectStore(server.url)
        cached = DiskCache(store, tmp_path / "cache")
        assert store.fetch(["a"], WHOLE).version_may_repeat == [True]
        assert cached.get("a") == values[0]
        values[0] = b"1" * 2**17
        assert cached.get("a") == values[0], "the first was kept"
        now[0] += 10
        assert store.fetch(["a"], WHOLE).version_may_repeat is None
        assert cached.get("a") == values[0]
        before = len(server.requests)
        assert cached.get("a") == values[0]
        assert [request.method for request in server.requests[before:]] == ["HEAD"], "it is kept now"


def test_without_a_clock_of_the_server_no_time_is_trusted() -> None:
    with scripted(lambda _: answer(200, BODY, Last_Modified=formatdate(1_000_000_000, usegmt=True))) as server:
        assert ObjectStore(server.url).fetch(["a"], WHOLE).version_may_repeat == [True]


@pytest.mark.parametrize("changes", [1, 1000])
def test_ranges_of_two_files_are_not_put_together(changes: int) -> None:
    """Of a server that tells neither ETags nor times, the sizes tell that a file was replaced between two ranges of one read."""
    lock, served = Lock(), count()

    def script(request: Request) -> bytes:
        with lock:
            number = min(next(served), changes)
        first, last = map(int, request.headers["range"].removeprefix("bytes=").split("-"))
        body = bytes([number % 256]) * (100 + number)
        return answer(206, body[first : last + 1], Content_Range=f"bytes {first}-{last}/{len(body)}")

    spans = np.array([[0, 0, 10], [0, 20, 10]], np.int64)
    with scripted(script) as server, no_pauses():
        store = ObjectStore(server.url, **QUICK)
        if changes == 1:
            fetched = store.fetch(["a"], spans)
            assert [bytes(buffer) for buffer in fetched.sources.buffers] == [b"\1" * 10] * 2
            assert fetched.sizes.tolist() == [101]
        else:
            with pytest.raises(StoreError, match="replaced 100 times") as caught:
                store.fetch(["a"], spans)
            assert caught.value.key == "a"


@pytest.mark.parametrize("status", [405, 501])
def test_servers_that_know_get_alone(status: int) -> None:
    def script(request: Request) -> bytes:
        if request.method == "HEAD":
            return answer(status)
        if request.path != "/a":
            return answer(404)
        return answer(206, BODY[:1], Content_Range="bytes 0-0/100", ETag='"1"')

    with scripted(script) as server:
        store = ObjectStore(server.url, **QUICK)
        assert store.sizes(["a", "b"]).tolist() == [100, -1]
        assert [store.exists("a"), store.exists("b")] == [True, False]


def test_sizes_of_a_server_without_heads_and_ranges() -> None:
    """So Apache answers about an empty file, if it may compress."""
    modified = formatdate(1_000_000_000, usegmt=True)

    def script(request: Request) -> bytes:
        size = None if request.method == "HEAD" else len(BODY)
        return answer(
            200, b"" if size is None else BODY, Last_Modified=modified, Date=formatdate(), Content_Length=size
        )

    with scripted(script) as server:
        store = ObjectStore(server.url, **QUICK)
        assert store.sizes(["a"]).tolist() == [len(BODY)]
        assert store.fetch(["a"], span(0, 0)).versions == store.fetch(["a"], WHOLE).versions


def test_tags_that_are_not_ascii() -> None:
    """Which are allowed in ETags (RFC 9110, section 8.8.3): the same bytes go back."""
    tag = '"é\xff"'

    def script(request: Request) -> bytes:
        return answer(200 if request.headers.get("if-match", tag) == tag else 412, BODY, ETag=tag)

    with scripted(script) as server:
        store = ObjectStore(server.url, **QUICK)
        first = store.fetch(["a"], WHOLE)
        assert store.fetch(["a"], WHOLE, expect=first.versions).status == [FOUND]
        assert server.requests[-1].headers["if-match"] == tag


def test_files_of_known_time_and_unknown_size_are_read_in_parts() -> None:
    """Bodies in chunks, from the beginning whatever is asked: how far one was read is nothing of its version."""
    memory = MemoryStore()
    array = frazil.create_array(memory, shape=(16, 16), dtype="int16", chunks=(2, 4), shards=(8, 8))
    array[...] = expected = np.arange(1, 257).reshape(16, 16)
    day = [1]

    def script(request: Request) -> bytes:
        value = memory.get(request.path[1:])
        if value is None:
            return answer(404)
        changed = formatdate(1_700_000_000 + 86400 * day[0], usegmt=True)
        head = answer(200, Content_Length=None, Transfer_Encoding="chunked", Last_Modified=changed, Date=formatdate())
        return head if request.method == "HEAD" else head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(value), value)

    with scripted(script) as server:
        store = ObjectStore(server.url, **QUICK)
        np.testing.assert_array_equal(frazil.open_array(store, "r")[3:9:2, 5:], expected[3:9:2, 5:])
        spans = np.array([[0, 0, 10], [0, -5, 5]], np.int64)
        first = store.fetch(["c/0/0"], spans)
        assert [bytes(buffer) for buffer in first.sources.buffers] == [
            memory.get("c/0/0")[:10],
            memory.get("c/0/0")[-5:],
        ]
        assert store.fetch(["c/0/0"], spans, continue_from=first).status == [FOUND]
        day[0] += 1
        assert store.fetch(["c/0/0"], spans, continue_from=first).status == [STALE]


# --- time-outs -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["read_timeout", "timeout"])
def test_a_server_that_never_answers(option: str) -> None:
    """As in docs/object-stores.md: the time-out and the number of attempts are options."""
    with scripted(lambda _: None) as server:
        store = ObjectStore(server.url, client_options={option: "200ms"}, retry_config={"max_retries": 2})
        error = refused(store, match="did not answer in time")
        assert error.hint is not None and "client_options" in error.hint
        assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("begins", "goes_on"),
    [
        (answer(200, Content_Length=10**9, ETag='"1"'), b"x"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n", b"Trailer: x\r\n"),
    ],
)
def test_an_answer_that_never_ends_times_out(begins: bytes, goes_on: bytes) -> None:
    """The time for a whole answer ends also where bytes keep coming: of its body, of heads before its own, of trailers."""
    with scripted(lambda _: chain([begins], repeat(goes_on))) as server:
        store = ObjectStore(server.url, client_options={"timeout": "200ms"}, retry_config={"max_retries": 0})
        refused(store, match="did not answer in time|got more than 100")


@pytest.mark.parametrize(
    "proxy", ["http://user:sec/ret@127.0.0.1:9", "http://user:sec]ret@[127.0.0.1:9", "socks5://user:secret@127.0.0.1:9"]
)
def test_a_proxy_that_is_no_url_is_an_error(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing of it is shown, as any part may be one of the password."""
    monkeypatch.setenv("http_proxy", proxy)
    error = refused(ObjectStore("http://nowhere.invalid", **QUICK), match="the URL of the proxy cannot be used")
    assert "sec" not in "".join(traceback.format_exception(error))
    assert "percent-encoded" in f"{error.hint}"


def test_a_proxy_that_does_not_answer() -> None:
    options = {**QUICK, "client_options": {"proxy_url": "http://user:secret@127.0.0.1:9"}}
    error = refused(ObjectStore("http://nowhere.invalid", **options), match="the proxy does not answer")
    assert "secret" not in f"{error}"


def test_invalid_options_are_refused() -> None:
    for options in ({"timeout": "soon"}, {"read_timeout": 5}, {"default_headers": {"a": "b\r\nc: d"}}):
        with pytest.raises(frazil.errors.InvalidInputError):
            ObjectStore("http://127.0.0.1:9", client_options=options)
    for wrong in ("https://a/", ["ftp://a/"], [5]):
        with pytest.raises(frazil.errors.InvalidInputError, match="redirects"):
            ObjectStore("http://127.0.0.1:9", redirects=wrong)  # type: ignore[arg-type]
    assert json.dumps(ObjectStore("http://127.0.0.1:9", redirects=["https://a/"]).redirects) == '["https://a/"]'
