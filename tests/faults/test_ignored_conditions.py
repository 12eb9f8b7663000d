"""Servers that ignore conditions: detected when a repository is created, and before the first commit, always before data could be lost."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from tests.servers.google import Google
from tests.servers.proxy import FaultProxy, Request

import frazil
from frazil import Repository
from frazil.errors import StoreError

CONDITIONS = {"x-goog-if-generation-match", "if-none-match", "if-match"}


@pytest.fixture
def proxy(gcs: Google) -> Iterator[FaultProxy]:
    with FaultProxy(gcs.endpoint) as proxy:
        yield proxy


def test_servers_that_ignore_conditions_are_refused_for_new_repositories(gcs: Google, proxy: FaultProxy) -> None:
    bucket = gcs.new_bucket()
    proxy.dropped = CONDITIONS
    with pytest.raises(StoreError, match="ignores conditions") as caught:
        Repository.create(gcs.store(bucket, "repo", endpoint=proxy.url))
    assert caught.value.key is not None
    assert caught.value.hint is not None
    assert gcs.store(bucket).list() == [], "nothing is left"
    proxy.dropped = set()
    Repository.create(gcs.store(bucket, "repo", endpoint=proxy.url))


def test_finding_out_is_one_write_and_one_look_up(gcs: Google, proxy: FaultProxy) -> None:
    store = gcs.store(prefix="repo", endpoint=proxy.url)
    repo = Repository.create(store)
    assert len(proxy.requests_matching("PUT /snapshots/")) + len(proxy.requests_matching("PUT %2Fsnapshots")) == 2
    assert len(proxy.requests_matching(_looks_up)) == 1
    proxy.requests.clear()
    for number in range(2):
        with repo.transaction(message="next") as root:
            root.create_array(f"a{number}", data=np.arange(4))
    assert len(proxy.requests_matching(_looks_up)) == 0, "it is known"


def _looks_up(request: Request) -> bool:
    return "snapshots" in request.path and request.headers.get("range") == "bytes=0-0"


def test_servers_that_ignore_conditions_are_refused_for_commits(gcs: Google, proxy: FaultProxy) -> None:
    bucket = gcs.new_bucket()
    plain = Repository.create(gcs.store(bucket, "repo"))
    with plain.transaction(message="first") as root:
        root.create_array("a", data=np.arange(4))
    tip = plain.lookup("main")
    files = gcs.store(bucket).list()
    proxy.dropped = CONDITIONS
    repo = Repository.open(gcs.store(bucket, "repo", endpoint=proxy.url))
    session = repo.writable_session()
    array = session.root["a"]
    assert isinstance(array, frazil.Array)
    array[0] = 7
    for _ in range(2):
        with pytest.raises(StoreError, match="ignores conditions"):
            session.commit("second")
        assert plain.lookup("main") == tip
    assert (array[...] == [7, 1, 2, 3]).all(), "nothing is lost"
    left = set(gcs.store(bucket).list()) - set(files)
    assert not [key for key in left if key.startswith(("repo/refs/", "repo/snapshots/"))]
    proxy.dropped = set()
    session.commit("second")
    found = plain.readonly_session().root["a"]
    assert isinstance(found, frazil.Array)
    assert (found[...] == [7, 1, 2, 3]).all()
