"""Redirects of web servers that add a slash to the path."""

from __future__ import annotations

import pytest
from tests.servers.scripted import Request, answer, scripted

from frazil.errors import StoreError
from frazil.stores.objects.object_store import ObjectStore


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_the_page_of_a_folder_is_an_absent_key(status: int) -> None:
    def script(request: Request) -> bytes:
        if request.path.partition("?")[0].endswith("/"):
            return answer(200, b"<html>", Content_Type="text/html; charset=utf-8")
        return answer(status, Location=locations[request.path])

    with scripted(script) as server:
        locations = {"/a%20b": "/a%20b/", "/c": "c/", "/d": f"{server.url}/d/?x"}
        store = ObjectStore(server.url)
        assert [store.get(key) for key in ("a b", "c", "d")] == [None] * 3
        assert not store.exists("c")


def test_a_value_behind_a_slash_is_read_and_what_cannot_be_read_there_is_an_error() -> None:
    """It may be a chunk: a missing one would be fill value."""

    def script(request: Request) -> bytes:
        if request.path == "/refused/":
            return answer(403)
        return answer(200, b"value") if request.path.endswith("/") else answer(301, Location=f"{request.path}/")

    with scripted(script) as server:
        store = ObjectStore(server.url)
        assert store.get("a") == b"value"
        with pytest.raises(StoreError):
            store.get("refused")
        with pytest.raises(StoreError):
            ObjectStore(server.url, redirects=[]).get("a")
