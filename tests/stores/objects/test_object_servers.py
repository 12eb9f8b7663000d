"""The suite of all stores, over real servers: S3, Azure, Google, web servers with all kinds of ranges and without."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from threading import Event
from typing import ClassVar, Self

import numpy as np
import obstore
import pytest
from tests.servers.buckets import S3, Azure
from tests.servers.google import Google
from tests.servers.proxy import FaultProxy, Request
from tests.servers.web import Suffixes, web_server

import frazil
from frazil.errors import DataError, ReadOnlyError, StoreError
from frazil.stores.local.local_store import LocalStore
from frazil.stores.memory import MemoryStore
from frazil.stores.objects.object_store import ObjectStore
from frazil.stores.store import Store
from frazil.stores.transfer.value_copies import put_parts
from frazil.stores.values import ANY, NO_SPANS, Changed, Pieces, Sources
from frazil.testing import StoreProfile, StoreTests
from frazil.testing.checks import refusal
from frazil.testing.store_reading import StoreReadingTests


class ContentVersions(StoreProfile):
    """ETags that are computed from the content."""

    versions_come_back = True


class TestS3(StoreTests):
    profile = ContentVersions()

    @pytest.fixture(autouse=True)
    def server(self, s3: S3) -> None:
        self.running = s3

    def make_store(self) -> Store:
        return self.running.store(prefix="in/a bucket")


class TestAzure(StoreTests):
    @pytest.fixture(autouse=True)
    def server(self, azure: Azure) -> None:
        self.running = azure

    def make_store(self) -> Store:
        return self.running.store(prefix="in/a container")

    def test_keys_of_all_kinds(self) -> None:
        """Except a backslash, which Azure takes for a slash, and which is refused."""
        keys = [
            "with space",
            "-",
            "...",
            "a.b-c_D",
            "x" * 200,
            "ünï/çødé",
            "日本/語",
            "%2e%2e",
            "c/0/1",
            "a:b",
            "~",
            "e\u0301",
        ]
        store = self.filled_with({key: key.encode() for key in keys})
        assert [store.get(key) for key in keys] == [key.encode() for key in keys]
        assert store.list() == sorted(keys)


class TestGoogle(StoreTests):
    profile = ContentVersions()

    @pytest.fixture(autouse=True)
    def server(self, gcs: Google) -> None:
        self.running = gcs

    def make_store(self) -> Store:
        return self.running.store()


class TestWeb(StoreReadingTests):
    """Files put there by another program."""

    suffix: ClassVar[Suffixes] = True
    ranges: ClassVar[bool] = True

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> Iterator[None]:
        self.path, self.numbers = tmp_path, count()
        with ExitStack() as self.servers:
            yield

    def filled_with(self, values: dict[str, bytes]) -> Store:
        folder = self.path / f"{next(self.numbers)}"
        files = LocalStore(folder)
        for key, value in values.items():
            files.set(key, value)
        return ObjectStore(self.servers.enter_context(web_server(folder, suffix=self.suffix, ranges=self.ranges)))

    def make_store(self) -> Store:
        return self.filled_with({})

    def test_failed_writes_store_nothing(self) -> None:
        store = self.filled(a=b"1")
        assert not store.capabilities.writable
        for call in (lambda: store.set("a", b"2"), lambda: store.erase("a"), lambda: store.create("b", b"")):
            refusal(ReadOnlyError, call)
        assert store.get("a") == b"1"


class TestWebThatRefusesSuffixes(TestWeb):
    suffix = "refused"


class TestWebThatIgnoresSuffixes(TestWeb):
    suffix = "ignored"


class TestWebWithoutRanges(TestWeb):
    ranges = False


def test_parts_of_one_object_become_another_one(s3: S3, azure: Azure) -> None:
    """Parts are read while others are written."""
    source, size, step = s3.store(), 2**24 + 5, 2**22
    value = np.random.default_rng(3).bytes(size)
    source.set("large", value)

    def parts(fails: bool) -> Iterator[bytes]:
        for first in range(0, size, step):
            yield source.get_partial_values([("large", (first, step))])[0] or b""
            if fails and first:
                raise DataError("the source is broken")

    for store in (azure.store(), s3.store()):
        put_parts(store, "copy", size, parts(False))
        assert store.get("copy") == value
        refusal(DataError, lambda store=store: put_parts(store, "broken", size, parts(True)))  # type: ignore[misc]
        assert store.list() == ["copy"], "what broke off is not there"


class _Part(bytes):
    """A part that counts those in memory."""

    alive = most = 0

    def __new__(cls, length: int) -> Self:
        _Part.alive += 1
        _Part.most = max(_Part.most, _Part.alive)
        return super().__new__(cls, length)

    def __del__(self) -> None:
        _Part.alive -= 1


def test_a_stream_to_a_bucket_has_a_few_parts_in_memory(s3: S3) -> None:
    store = s3.store()
    put_parts(store, "a", 80 * 2**20, (_Part(2**20) for _ in range(80)))
    assert store.get("a") == bytes(80 * 2**20)
    assert _Part.most <= 30, "two parts of 8 MiB are sent, and one is filled"


def test_a_stream_takes_no_look_up(s3: S3) -> None:
    """The client returns no version of a stream. No object has the one in the answer, so that no other writer's value is replaced by it."""
    with FaultProxy(s3.endpoint) as proxy:
        store = s3.store(endpoint=proxy.url)
        rows, offsets = np.array([[-1, 0, 2**24]], np.int64), np.array([0, 1], np.int64)
        pieces = Pieces(Sources(None, ()), rows, offsets, parts=iter([bytes(2**23)] * 2))
        (version,) = store.put_many(["a"], pieces, [ANY])
        assert [request.method for request in proxy.requests] == ["POST", "PUT", "PUT", "POST"]
        assert isinstance(version, bytes)
        assert isinstance(store.put("a", b"new", version), Changed)


def test_a_large_value_is_looked_up_once_when_it_is_copied(s3: S3) -> None:
    """Its first bytes are fetched with those of others, and show its size; then it is read in parts of that version."""
    with FaultProxy(s3.endpoint) as proxy:
        bucket = s3.new_bucket()
        s3.store(bucket).set("a", value := os.urandom(5 * 2**20))
        target = MemoryStore()
        assert target.copy_in(["b"], s3.store(bucket, endpoint=proxy.url), ["a"], limit=2**22) == [len(value)]
        assert target.get("b") == value
        assert [request.headers["range"] for request in proxy.requests if "if-match" not in request.headers] == [
            "bytes=0-1048575"
        ]
        assert len(proxy.requests) == 6


def test_a_stream_is_stored_where_it_cannot_be_read_back(s3: S3) -> None:
    with FaultProxy(s3.endpoint) as proxy:
        proxy.fail("GET .", "403", None)
        put_parts(s3.store(endpoint=proxy.url), "a", 2**24, iter([bytes(2**23)] * 2))


def test_a_stream_that_breaks_removes_what_it_sent(s3: S3) -> None:
    def parts() -> Iterator[bytes]:
        yield bytes(2**24)
        raise DataError("the source is broken")

    with FaultProxy(s3.endpoint) as proxy:
        refusal(DataError, lambda: put_parts(s3.store(endpoint=proxy.url), "a", 2**25, parts()))
        assert len(proxy.requests_matching("DELETE uploadId=")) == 1


def test_unsupported_requests_are_not_repeated(s3: S3) -> None:
    with FaultProxy(s3.endpoint) as proxy:
        proxy.fail("PUT .", "501", None)
        store = s3.store(endpoint=proxy.url)
        error = refusal(StoreError, lambda: store.create("a", b"1"))
        assert len(proxy.requests_matching("PUT .")) == 1
    assert error.hint is not None
    assert "If-None-Match" in error.hint


def test_the_error_for_a_write_mentions_its_lost_answer(s3: S3) -> None:
    """Also if reading back fails, too: a read error would suggest that nothing had been written."""
    with FaultProxy(s3.endpoint) as proxy:
        proxy.fail("PUT .", "lost answer", None)
        proxy.fail("GET .", "403", None)
        store = s3.store(endpoint=proxy.url, retry_config={"max_retries": 0})
        error = refusal(StoreError, lambda: store.create("a", b"1"))
    assert "its answer was lost" in str(error)
    assert error.key == "a"


def test_many_are_erased_also_where_some_are_not_there(s3: S3, azure: Azure, gcs: Google) -> None:
    for store in (s3.store(), azure.store(), gcs.store()):
        for key in ("a/1", "a/3", "b"):
            store.set(key, b"1")
        store.erase_values([f"a/{number}" for number in range(20)])
        assert store.list() == ["b"]


def test_a_server_that_is_silent_can_be_interrupted(s3: S3) -> None:
    """The client handles no signal while it waits, and would wait for minutes."""
    with FaultProxy(s3.endpoint) as proxy:
        store = s3.store(endpoint=proxy.url, retry_config={"max_retries": 0})
        acts = [lambda: store.get("a"), lambda: store.create("a", b"1"), lambda: store.set("a", b"1"), store.list]

        def interrupt(request: Request) -> bool:
            os.kill(os.getpid(), signal.SIGINT)
            return True

        proxy.fail(interrupt, "stall", len(acts))
        for act in acts:
            with pytest.raises(KeyboardInterrupt):
                act()
        program = subprocess.Popen(
            [sys.executable, "-m", "frazil", "ls", store.url],
            env=os.environ | s3.environment(proxy.url),
            stderr=subprocess.PIPE,
        )
        request_seen = Event()
        proxy.fail(lambda _: request_seen.set() or True, "stall", None)  # type: ignore[func-returns-value]
        assert request_seen.wait(60)
        program.send_signal(signal.SIGINT)
        assert (program.communicate(timeout=60)[1], program.returncode) == (b"", 130)


def test_a_refused_part_is_an_error(s3: S3) -> None:
    with FaultProxy(s3.endpoint) as proxy:
        proxy.fail("PUT partNumber=1", "403", None)
        store = s3.store(endpoint=proxy.url, retry_config={"max_retries": 0})
        error = refusal(StoreError, lambda: put_parts(store, "a", 5 * 2**23, iter([bytes(2**23)] * 5)))
        assert error.key == "a"
        assert s3.secret not in str(error)
        proxy.mend()
        proxy.fail("PUT partNumber=1", "409", None)
        error = refusal(StoreError, lambda: put_parts(store, "a", 5 * 2**23, iter([bytes(2**23)] * 5)))
        assert "choose another key" in f"{error.hint}"


@pytest.mark.parametrize("kind", ["s3", "azure", "gcs"])
def test_lists_tell_the_versions_of_objects(kind: str, request: pytest.FixtureRequest) -> None:
    """Except GCS, whose lists have no generations."""
    store = request.getfixturevalue(kind).store()
    for key in ("a", "b/c"):
        store.set(key, key.encode())
    page = store.list_page("", details=True)
    assert page.sizes.tolist() == [1, 3]
    assert (page.modified > 0).all()
    fetched = store.fetch(["a", "b/c"], NO_SPANS).versions
    assert list(page.versions) == ([None, None] if kind == "gcs" else fetched)


def test_within_a_bucket_the_server_copies(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    """Formerly every byte went through this machine, and copies of large objects held more memory than the limit."""
    values = {f"{number}/ä %2F+": bytes([number]) * 10 for number in range(3)}
    with FaultProxy(s3.endpoint) as proxy:
        bucket = s3.new_bucket()
        source, target = (s3.store(bucket, prefix, endpoint=proxy.url) for prefix in ("from", "to"))
        for key, value in values.items():
            source.set(key, value)
        names = [*values, "absent"]
        sizes = target.copy_in([f"copy/{name}" for name in names], source, names)
        assert sizes == [10, 10, 10, -1]
        assert proxy.requests_matching(f"GET {bucket}/from") == []
        assert [target.get(f"copy/{name}") for name in names] == [*values.values(), None]
        proxy.fail(lambda request: "x-amz-copy-source" in request.headers, "403")
        assert target.copy_in(["again", "1"], source, list(values)[:2]) == [10, 10]
        assert len(proxy.requests_matching(f"GET {bucket}/from")) == 1, (
            "what the server refuses to copy is sent, no other"
        )
        assert target.get("again") == values["0/ä %2F+"]
        # a server that does not know copies stores an empty object
        monkeypatch.setattr(obstore, "copy", lambda client, _, key: obstore.put(client, key, b""))
        assert target.copy_in(["ignored"], source, ["2/ä %2F+"]) == [10]
        assert target.get("ignored") == values["2/ä %2F+"]
        # or says that it has copied, and has done nothing
        monkeypatch.setattr(obstore, "copy", lambda *_: None)
        assert target.copy_in(["lost"], source, ["2/ä %2F+"]) == [10]
        assert target.get("lost") == values["2/ä %2F+"]


@pytest.mark.parametrize("knows", [True, False])
def test_a_node_is_moved_whatever_the_server_knows_of_copies(
    s3: S3, knows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that does not know copies makes empty objects: the chunks were lost, as their old keys are removed."""
    if not knows:
        monkeypatch.setattr(obstore, "copy", lambda client, _, key: obstore.put(client, key, b""))
    with FaultProxy(s3.endpoint) as proxy:
        group = frazil.create_group(s3.store(endpoint=proxy.url))
        group.create_array("a", data=np.arange(24), chunks=(4,))
        group.move("a", "b")
        np.testing.assert_array_equal(group["b"][...], np.arange(24))
        group.move("b", "c")
        np.testing.assert_array_equal(group["c"][...], np.arange(24))
        looked_up = [
            request for request in proxy.requests_matching("GET c/[0-5]$") if "bytes=0-0" in request.headers.values()
        ]
        assert len(looked_up) == (1 if knows else 2 * (1 + 6)), "one value shows that the server copies"


def test_azure_is_not_asked_to_copy_what_is_moved(azure: Azure) -> None:
    """It may answer before a copy is complete, and the source would be removed meanwhile."""
    with FaultProxy(azure.endpoint) as proxy:
        store = azure.store(endpoint=proxy.url)
        store.set("a", b"value")
        assert store.copy_in(["b", "c"], store, ["a", "none"], shares=True) == [5, -1]
        assert store.get("b") == b"value"
        assert not proxy.requests_matching(lambda request: "x-ms-copy-source" in request.headers)
