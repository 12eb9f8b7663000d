"""Redirects of web servers that lead to no other file."""

from __future__ import annotations

import pytest
from tests.servers.scripted import answer, scripted

from frazil.stores.objects.object_store import ObjectStore


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_a_folder_is_an_absent_key(status: int) -> None:
    """Also if it names another host or scheme, as servers do that do not know the proxy before them; none is followed or reported."""
    with scripted(lambda request: answer(status, Location=locations[request.path])) as server:
        locations = {"/a%20b": "/a%20b/", "/c": "c/", "/d": f"{server.url}/d/?x", "/e": "http://elsewhere.invalid/e/"}
        store = ObjectStore(server.url, redirects=[])
        assert [store.get(key) for key in ("a b", "c", "d", "e")] == [None] * 4
        assert not store.exists("c")
