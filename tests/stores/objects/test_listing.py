"""Wrong lists: keys out of order, repeated, from elsewhere, endless; and objects that consoles create as folders."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from itertools import count
from urllib.parse import parse_qs

import pytest
from tests.servers.proxy import FaultProxy
from tests.servers.scripted import answer, scripted
from tests.servers.web import serving

import frazil
from frazil.errors import StoreError
from frazil.operations.listing import entries_of_node, entries_of_prefix
from frazil.operations.usage import usage
from frazil.stores.memory import MemoryStore
from frazil.stores.objects import listing
from frazil.stores.objects.object_store import ObjectStore
from frazil.stores.transfer.value_copies import put_parts

pytest.importorskip("obstore")
SECRET = "that-is-not-to-be-seen"


def listed(keys: Sequence[tuple[str, int]], folders: Sequence[str] = (), *, more: bool = False) -> bytes:
    """An answer to ListObjectsV2."""
    rows = "".join(
        f'<Contents><Key>{key}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified><ETag>"e"</ETag><Size>{size}</Size></Contents>'
        for key, size in keys
    )
    rows += "".join(f"<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>" for folder in folders)
    rows += "<NextContinuationToken>on</NextContinuationToken>" if more else ""
    return f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>{rows}</ListBucketResult>".encode()


@contextmanager
def answering(body: Callable[[str], bytes]) -> Iterator[str]:
    """A server that answers every GET with 200 and the result of `body` for its path, during the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer = body(self.path)
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *words: object) -> None: ...

    with serving(Handler) as url:
        yield url


def store_at(
    endpoint: str, prefix: str = "in/here", retry_config: Mapping[str, object] | None = None, **options: object
) -> ObjectStore:
    return ObjectStore(
        f"s3://bucket/{prefix}".rstrip("/"),
        endpoint=endpoint,
        access_key_id="me",
        secret_access_key=SECRET,
        region="us-east-1",
        retry_config=retry_config or {"max_retries": 0},
        **options,
    )


@pytest.mark.parametrize("again", [False, True])
def test_keys_of_elsewhere_twice_and_out_of_order(again: bool) -> None:
    keys = ["in/here/z", "in/here/a/b", "in/here/a/b", "elsewhere/k", "in/hereafter", "in/here", "z", "in/here/B"]
    folders = ["in/here/a/", "in/here/a/", "elsewhere/", "in/here/", "in/"]
    with answering(lambda path: listed([(key, 3) for key in keys], folders if "delimiter" in path else ())) as url:
        store = store_at(url)
        if again:
            store = pickle.loads(pickle.dumps(store))
        assert store.list() == ["B", "a/b", "z"]
        assert list(store.list_page("", "B").keys) == ["a/b", "z"]
        assert store.list_prefix("a/") == ["a/b"]
        assert list(store.list_page("", limit=1).keys) == ["B"]
        assert store.list_dir("")[1] == ["a/"]


def test_folders_of_consoles_are_no_keys() -> None:
    """Empty objects whose names end with a slash; the client removes the slash."""
    keys = [("in/here/", 0), ("in/here/level/", 0), ("in/here/level/0", 5), ("in/here/none", 0)]

    def body(path: str) -> bytes:
        return listed([keys[0], keys[3]], ["in/here/level/"]) if "delimiter" in path else listed(keys)

    with answering(body) as url:
        store = store_at(url)
        assert store.list() == ["level/0", "none"]
        assert store.list_dir("") == (["none"], ["level/"])


@pytest.mark.parametrize("key", ["in/here/a//b", "in/here//b", "in/here/a/../b"])
def test_a_key_of_others_that_is_no_path_is_named(key: str) -> None:
    """The client refuses the whole list; that is not an empty one, and no matter of the network."""
    with answering(lambda path: listed([("in/here/a", 1), (key, 1)])) as url:
        store = store_at(url)
        for call in (store.list, lambda: store.list_dir("")):
            with pytest.raises(StoreError, match=re.escape(key)) as caught:
                call()
            assert "rename" in f"{caught.value.hint}"


def test_keys_that_are_no_paths_are_not_tried_again() -> None:
    with scripted(lambda _: answer(500)) as server:
        store = ObjectStore("s3://bucket/a", endpoint=server.url, skip_signature=True)
        for key in ("tab\tin it", "line\nin it"):
            for call in (
                store.get,
                lambda key: store.set(key, b"1"),
                lambda key: store.create(key, b"1"),
                lambda key: put_parts(store, key, 1, iter([b"1"])),
                store.erase,
            ):
                with pytest.raises(StoreError, match="this is no key for its client") as caught:
                    call(key)
                assert "choose another" in f"{caught.value.hint}"
                assert "\n" not in caught.value.args[0]
        assert server.requests == []


def test_a_list_without_an_end_is_an_error() -> None:
    with answering(lambda path: listed([(f"in/here/{i}", 1) for i in range(600)], more=True)) as url:
        store = store_at(url)
        with pytest.raises(StoreError, match="repeat the same keys") as caught:
            store.list()
        assert caught.value.hint is not None


@pytest.mark.parametrize("keys", [(), ("in/here/a",)])
def test_pages_without_an_end_are_an_error(keys: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The client follows the same token again and again, within one call where pages are empty, or of one level."""
    monkeypatch.setattr(listing, "_PAGES", 0.01)  # less than one request may take: the client itself ends none
    with scripted(lambda _: answer(200, listed([(key, 1) for key in keys], more=True))) as server:
        store = store_at(server.url, client_options={"timeout": "30s"})
        calls = [lambda: store.list_dir(""), *([] if keys else [store.list, lambda: store.is_empty("")])]
        for call in calls:
            with pytest.raises(StoreError, match=r"did not end within 0\.3 s") as caught:
                call()
            assert "timeout=" in f"{caught.value.hint}"


@pytest.mark.parametrize("body", [b"<ListBucketResult><Contents><Key>\xff", b"", b"{}"])
def test_an_invalid_list(body: bytes) -> None:
    with answering(lambda path: body) as url:
        store = store_at(url)
        for call in (store.list, lambda: store.list_dir("")):
            with pytest.raises(StoreError, match="not one of an object store") as caught:
                call()
            assert "endpoint" in f"{caught.value.hint}"
            assert SECRET not in f"{caught.value!r} {caught.value}"


class Bucket:
    """A server with objects of one byte, with a thousand per list page, as in S3. asked: (method, path)."""

    def __init__(self, keys: Sequence[str], documents: Mapping[str, bytes] = {}) -> None:
        self.keys = sorted([*keys, *documents])
        self.documents = documents
        self.requests: list[tuple[str, str]] = []

    def answer(self, method: str, path: str) -> tuple[int, bytes]:
        place, _, query = path.partition("?")
        if "list-type" not in query:
            self.requests.append((method, place))
            value = self.documents.get(place.removeprefix("/bucket/"))
            return (404, b"") if value is None else (206, value)
        self.requests.append((method, "list"))
        expected = {name: values[-1] for name, values in parse_qs(query).items()}
        prefix = expected.get("prefix", "")
        after = expected.get("continuation-token", expected.get("start-after", ""))
        first = max(bisect_right(self.keys, after), bisect_left(self.keys, prefix))
        page = [key for key in self.keys[first : first + 1001] if key.startswith(prefix)]
        more = len(page) == 1001
        page = page[:1000]
        body = listed([(key, len(self.documents.get(key, b"x"))) for key in page], more=more)
        return 200, body.replace(b">on<", f">{page[-1]}<".encode()) if more else body

    @contextmanager
    def serving(self) -> Iterator[str]:
        bucket = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                status, answer = bucket.answer(self.command, self.path)
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.send_header("Content-Range", f"bytes 0-{len(answer) - 1}/{len(answer)}")
                self.send_header("ETag", '"e"')
                self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer)

            do_HEAD = do_GET

            def log_message(self, *words: object) -> None: ...

        with serving(Handler) as url:
            yield url


def test_a_list_whose_responses_break_off_is_continued() -> None:
    keys = [f"in/here/{i:06}" for i in range(3500)]
    bucket, counted = Bucket(keys), count()
    with bucket.serving() as url, FaultProxy(url) as proxy:
        proxy.fail(lambda request: next(counted) % 2 == 0, "cut body", None)
        store = store_at(proxy.url, retry_config={"max_retries": 1})
        assert store.list() == [f"{i:06}" for i in range(3500)]
        assert [place for _, place in bucket.requests] == ["list"] * 8
        proxy.mend()
        proxy.fail("GET continuation", "cut body")
        assert len(store.list_dir("")[0]) == 3500
        proxy.fail("GET .", "cut body", None)
        for call in (store.list, lambda: store.list_dir("")):
            with pytest.raises(StoreError, match="could not be listed"):
                call()


@pytest.mark.parametrize("rows", [1000, 1001, 2500])
def test_a_list_that_goes_on_with_error_documents_is_no_short_list(rows: int) -> None:
    """However many come in a row: an answer without the last object, which exists, is no list."""
    bucket = Bucket([f"in/here/{i:06}" for i in range(rows)])
    proper, failures = bucket.answer, [5]

    def answer(method: str, path: str) -> tuple[int, bytes]:
        if method == "HEAD":
            return (200 if path.removeprefix("/bucket/") in bucket.keys else 404), b""
        if failures[0] and ("continuation" in path or "start-after" in path):
            failures[0] -= 1
            return 200, b"<Error><Code>InternalError</Code></Error>"
        return proper(method, path)

    bucket.answer = answer  # type: ignore[method-assign]
    with bucket.serving() as url:
        store = store_at(url, retry_config={"max_retries": 5, "backoff": {"init_backoff": timedelta(milliseconds=1)}})
        assert len(store.list()) == rows
        failures[0] = 1000
        with pytest.raises(StoreError, match="ends before an object that exists"):
            store_at(url).list()
        del bucket.keys[999:]
        assert len(store.list()) == 999


def test_a_list_whose_last_object_is_removed_meanwhile() -> None:
    bucket = Bucket([f"in/here/{i:06}" for i in range(1000)])
    proper = bucket.answer

    def answer(method: str, path: str) -> tuple[int, bytes]:
        answered = proper(method, path) if method == "GET" else (404, b"")
        del bucket.keys[999:]
        return answered

    bucket.answer = answer  # type: ignore[method-assign]
    with bucket.serving() as url:
        assert len(store_at(url).list()) == 1000
        assert [method for method, _ in bucket.requests] == ["GET", "GET"]


@pytest.mark.parametrize("rows", [3, 1000, 2500])
def test_a_list_that_ends_with_an_error_document_is_requested_again(rows: int) -> None:
    """Its status is 200, so that for the client it is a page without rows."""
    bucket = Bucket([f"in/here/{i:06}" for i in range(rows - 1)], {"in/here/zarr.json": b"{}"})
    keys = [f"{i:06}" for i in range(rows - 1)] + ["zarr.json"]
    proper, left = bucket.answer, [0]  # lists until one fails

    def answer(method: str, path: str) -> tuple[int, bytes]:
        left[0] -= "list-type" in path
        if "list-type" in path and left[0] == 0:
            return 200, b"<Error><Code>InternalError</Code></Error>"
        return proper(method, path)

    bucket.answer = answer  # type: ignore[method-assign]
    with bucket.serving() as url:
        store = store_at(url)
        assert store.get("zarr.json") == b"{}"
        for call in (store.list, lambda: store.list_dir("")[0]):
            for page in range(-(-rows // 1000)):
                left[0] = page + 1
                assert call() == keys


def test_a_listing_costs_one_request_for_each_page_of_the_server() -> None:
    keys = [f"in/here/{i:06}" for i in range(100_000)]
    bucket = Bucket([*keys, "in/hereafter"])
    with bucket.serving() as url:
        store = store_at(url)
        pages = list(store.list_pages("", details=True))
        assert [key for page in pages for key in page.keys] == [f"{i:06}" for i in range(100_000)]
        assert all(page.sizes is not None and set(page.sizes.tolist()) == {1} for page in pages)
        assert all(page.versions is not None and set(page.versions) == {b'"e"'} for page in pages)
        assert all(page.modified is not None and set(page.modified.tolist()) == {1704067200 * 10**9} for page in pages)
        assert bucket.requests == [("GET", "list")] * 101, "a last page that is full may not be the last"
        bucket.requests.clear()
        found, after = 0, pages[0].next
        while after is not None:  # in pages of another length
            page = store.list_page("", after, limit=1500)
            found, after = found + len(page.keys), page.next
        assert found == 100_000 - len(pages[0].keys)
        assert len(bucket.requests) <= 100 - len(pages[0].keys) // 1000 + 1
        bucket.requests.clear()
        assert not store.is_empty()
        assert bucket.requests == [("GET", "list")]


@pytest.mark.parametrize("count", [2_500, 20_000])
def test_stored_sizes_of_an_array_cost_only_the_listing(count: int) -> None:
    model = MemoryStore()
    frazil.create_array(model, shape=(count,), dtype="u1", chunks=(1,), codecs=["bytes"])
    document = model.get("zarr.json")
    assert document is not None
    bucket = Bucket([f"in/here/c/{i}" for i in range(count)], {"in/here/zarr.json": document})
    requests = [("GET", "list")] * (count // 1000 + 1)
    with bucket.serving() as url:
        array = frazil.open_array(store_at(url))
        for use, expected in (
            (lambda: array.info[-3:-1], (count, count)),
            (array.nbytes_stored, count),
            (lambda: array.nchunks_initialized, count),
            (lambda: [entry[-3:-1] for entry in entries_of_node(array, sizes=True)], [(count, count)]),
            (lambda: [(node.objects, node.stored_nbytes) for node in usage(array)], [(count, count)]),
        ):
            bucket.requests.clear()
            assert use() == expected
            assert bucket.requests == requests
        bucket.requests.clear()
        entries = list(entries_of_prefix(array.store, "c/", sizes=True, recursive=True))
        assert [entry.nbytes for entry in entries] == [1] * count
        assert len(bucket.requests) == count // 1000 + 1


def test_a_list_that_loses_its_order_after_the_first_page() -> None:
    """Earlier pages were already yielded."""
    keys = [f"in/here/{i:05}" for i in range(70_000)]
    bucket = Bucket(keys)
    with bucket.serving() as url:
        store = store_at(url)
        pages = store.list_pages("")
        next(pages)
        ordered, bucket.answer = bucket.answer, lambda method, path: _with(ordered(method, path), b"69500", b"0")  # type: ignore[method-assign]
        with pytest.raises(StoreError, match="not sorted"):
            list(pages)


def _with(answer: tuple[int, bytes], old: bytes, new: bytes) -> tuple[int, bytes]:
    return answer[0], answer[1].replace(b"<Key>in/here/" + old, b"<Key>in/here/" + new)


LAST = """
import asyncio, gc, sys, time, obstore
from frazil.stores.objects.object_store import ObjectStore
from frazil.stores.transfer.value_copies import put_parts

def write_slowly(loop, write=asyncio.SelectorEventLoop._write_to_self):
    write(loop)
    time.sleep(0.3)  # without the lock of the interpreter, as in the system call

class Last:  # garbage that is collected at the end of the interpreter, which it keeps there
    def __init__(self):
        self.itself = self

    def __del__(self):
        time.sleep(0.6)

asyncio.SelectorEventLoop._write_to_self = write_slowly
gc.disable()
Last()
store = ObjectStore(obstore.store.MemoryStore())
print(store.list_page("", delimited=sys.argv[1] == "level").keys)
"""


@pytest.mark.parametrize("kind", ["all", "level"])
def test_a_process_that_ends_after_a_listing_is_not_aborted(kind: str) -> None:
    """As it was where the client's thread, which had brought the list, was still waking the loop."""
    done = subprocess.run([sys.executable, "-c", LAST, kind], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


def test_a_key_of_many_levels_beside_an_empty_object() -> None:
    """Of a hostile server: such keys took memory by the square of their length."""
    deep = "a/" * 200_000
    rows = listed([("in/here/a", 0), (f"in/here/{deep}b", 5), ("in/here/e", 0)])
    with answering(lambda _: rows) as url:
        assert list(store_at(url).list()) == [f"{deep}b", "e"]
