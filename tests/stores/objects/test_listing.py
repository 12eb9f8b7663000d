"""Lists that lie: keys out of order, twice, of elsewhere, without an end; and what consoles leave in buckets as folders."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import pytest
from tests.servers.web import serving

from frazil.errors import StoreError
from frazil.stores.objects.object_store import ObjectStore

pytest.importorskip("obstore")
SECRET = "that-is-not-to-be-seen"


def listed(keys: Sequence[tuple[str, int]], folders: Sequence[str] = (), *, more: bool = False) -> bytes:
    """An answer to ListObjectsV2."""
    told = "".join(
        f'<Contents><Key>{key}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified><ETag>"e"</ETag><Size>{size}</Size></Contents>'
        for key, size in keys
    )
    told += "".join(f"<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>" for folder in folders)
    told += "<NextContinuationToken>on</NextContinuationToken>" if more else ""
    return f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>{told}</ListBucketResult>".encode()


@contextmanager
def answering(body: Callable[[str], bytes]) -> Iterator[str]:
    """A server that answers every GET with 200 and what `body` says for its path, as long as the block lasts."""

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


def store_at(endpoint: str, prefix: str = "in/here") -> ObjectStore:
    return ObjectStore(
        f"s3://bucket/{prefix}".rstrip("/"),
        endpoint=endpoint,
        access_key_id="me",
        secret_access_key=SECRET,
        region="us-east-1",
        retry_config={"max_retries": 0},
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
        assert list(store.list_page(limit=1).keys) == ["B"]
        assert store.list_dir("")[1] == ["a/"]


def test_folders_of_consoles_are_no_keys() -> None:
    """Empty objects whose names end with a slash; the client takes the slash off."""
    keys = [("in/here/", 0), ("in/here/level/", 0), ("in/here/level/0", 5), ("in/here/none", 0)]

    def body(path: str) -> bytes:
        return listed([keys[0], keys[3]], ["in/here/level/"]) if "delimiter" in path else listed(keys)

    with answering(body) as url:
        store = store_at(url)
        assert store.list() == ["level/0", "none"]
        assert store.list_dir("") == (["none"], ["level/"])


def test_a_list_without_an_end_is_an_error() -> None:
    with answering(lambda path: listed([(f"in/here/{i}", 1) for i in range(600)], more=True)) as url:
        store = store_at(url)
        with pytest.raises(StoreError, match="again and again") as caught:
            store.list()
        assert caught.value.hint is not None


@pytest.mark.parametrize("body", [b"<ListBucketResult><Contents><Key>\xff", b"", b"{}"])
def test_a_list_that_is_none(body: bytes) -> None:
    with answering(lambda path: body) as url:
        store = store_at(url)
        for call in (store.list, lambda: store.list_dir("")):
            with pytest.raises(StoreError, match="none that an object store gives") as caught:
                call()
            assert "endpoint" in f"{caught.value.hint}"
            assert SECRET not in f"{caught.value!r} {caught.value}"
