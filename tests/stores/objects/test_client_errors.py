"""What a 404 of a bucket means: an absent key only if the server says so. Other errors are in tests/faults/test_bad_servers.py."""

from __future__ import annotations

import numpy as np
import pytest
from tests.faults.faulty_buckets import QUICK
from tests.servers.buckets import S3, Azure
from tests.servers.google import Google
from tests.servers.proxy import FaultProxy
from tests.servers.scripted import Request, Scripted, answer, scripted

import frazil
from frazil.errors import StoreError
from frazil.stores.memory import MemoryStore
from frazil.stores.objects.client_errors import first_line
from frazil.stores.objects.object_store import ObjectStore
from frazil.stores.values import NO_SPANS

PAGE = b"<html><body><h1>Not Found</h1></body></html>"
NO_KEY = b"<Error><Code>NoSuchKey</Code></Error>"
NO_BUCKET = b"<Error><Code>NoSuchBucket</Code></Error>"


def at(server: Scripted, url: str = "s3://bucket/x", **options: object) -> ObjectStore:
    return ObjectStore(url, endpoint=server.url, skip_signature=True, **{**QUICK, **options})


@pytest.mark.parametrize("body", [PAGE, b"", b"not found", b'{"error": "no such route"}', NO_BUCKET])
@pytest.mark.parametrize("url", ["s3://bucket/x", "az://box/x"])
def test_a_404_that_is_about_no_key_is_an_error(body: bytes, url: str) -> None:
    """As of a proxy, of a wrong endpoint, and of a missing bucket. Nothing is absent because of it."""
    with scripted(lambda request: answer(404, b"" if request.method == "HEAD" else body)) as server:
        store = at(server, url, **({"account_name": "me"} if url.startswith("az") else {}))
        for call in (
            lambda: store.get("a"),
            lambda: store.exists("a"),
            lambda: store.sizes(["a"]),
            lambda: store.fetch(["a"], NO_SPANS),
            lambda: store.get_partial_values([("a", (-5, 5))]),
            lambda: store.erase("a"),
            lambda: store.erase_values(["a", "b"]),
            lambda: store.create("a", b"1"),
            lambda: store.copy_in(["b"], store, ["a"], shares=True),
            lambda: frazil.open(store, "r"),
        ):
            with pytest.raises(StoreError) as caught:
                call()
            assert "bucket" in f"{caught.value}" if body == NO_BUCKET else "object store" in f"{caught.value.hint}"


def test_a_404_of_a_proxy_is_no_fill_value() -> None:
    memory = MemoryStore()
    frazil.create_array(memory, path="sharded", shape=(8, 8), dtype="i4", chunks=(2, 2), shards=(4, 4), fill_value=7)[
        :4
    ] = 1
    frazil.create_array(memory, path="plain", shape=(8, 8), dtype="i4", chunks=(4, 4), fill_value=7)[:4] = 1

    def script(request: Request) -> list[bytes]:
        value = memory.get(request.path.removeprefix("/bucket/x/"))
        if value is None or not request.path.endswith("zarr.json"):
            return [answer(404, PAGE, Connection="close")]
        told = f"bytes 0-{len(value) - 1}/{len(value)}"
        return [
            answer(
                206,
                value,
                ETag='"1"',
                Content_Range=told,
                Last_Modified="Mon, 01 Jan 2024 00:00:00 GMT",
                Connection="close",
            )
        ]

    with scripted(script) as server:
        for path in ("sharded", "plain"):
            array = frazil.open_array(at(server), path=path, mode="r")
            for selection in ((0, 0), (slice(None), 0), ...):
                with pytest.raises(StoreError, match="404"):
                    array[selection]


@pytest.mark.parametrize("kind", ["s3", "azure", "gcs"])
def test_absent_keys_cost_one_request(kind: str, request: pytest.FixtureRequest) -> None:
    """Also when they are erased, one by one, and when others of the same call are there."""
    server: S3 | Azure | Google = request.getfixturevalue(kind)
    with FaultProxy(server.endpoint) as proxy:
        store = server.store(endpoint=proxy.url)
        for key in ("empty", "a", "b"):
            store.set(key, b"" if key == "empty" else b"value")
        for call, most in (
            (lambda: store.get("none"), 1),
            (lambda: store.exists("none"), 1),
            (lambda: store.exists("a"), 1),
            (lambda: store.exists("empty"), 2),
            (lambda: store.get("empty"), 2),
            (lambda: store.erase("none"), 1),
            (lambda: store.erase_values(["a", "none", "neither"]), 1 if kind == "s3" else 3),
        ):
            proxy.requests.clear()
            call()
            assert len(proxy.requests) <= most
        assert store.list() == ["b", "empty"]
        assert store.sizes(["b", "empty", "a"]).tolist() == [5, 0, -1]
        assert store.get_partial_values([("empty", (0, 1)), ("empty", (0, None)), ("b", (4, 1))]) == [b"", b"", b"e"]


def test_erasing_in_a_container_that_is_not_there_is_an_error(azure: Azure, s3: S3) -> None:
    for store in (azure.store("no-such-container", **QUICK), s3.store("no-such-bucket", **QUICK)):
        for call in (lambda: store.erase("a"), lambda: store.erase_values(["a", "b"]), lambda: store.exists("a")):  # noqa: B023
            with pytest.raises(StoreError, match="bucket or container does not exist"):
                call()


@pytest.mark.parametrize(
    ("code", "hint"), [("RequestTimeTooSkewed", "clock"), ("ExpiredToken", "expired"), ("AccessDenied", "permissions")]
)
def test_a_refusal_hints_what_to_check(code: str, hint: str) -> None:
    with scripted(
        lambda _: [answer(403, f"<Error><Code>{code}</Code></Error>".encode(), Connection="close")]
    ) as server:
        for call in (at(server).get, at(server).erase, at(server).exists):
            with pytest.raises(StoreError, match=code) as caught:
                call("a")
            assert hint in f"{caught.value.hint}"


def test_an_answer_about_another_key_is_no_proof() -> None:
    with scripted(
        lambda request: [answer(404, NO_KEY if request.path.endswith("/a") else PAGE, Connection="close")]
    ) as server:
        store = at(server)
        assert store.get("a") is None
        np.testing.assert_array_equal(store.sizes(["a"]), [-1])
        with pytest.raises(StoreError):
            store.sizes(["a", "b"])


@pytest.mark.parametrize(
    "text", ["no such bucket.", "no such bucket:\nmore", "no such bucket.<?xml version", "no such bucket"]
)
def test_a_reason_ends_without_a_period(text: str) -> None:
    """Messages add a period and the hint."""
    assert first_line(text) == "no such bucket"
