"""frazil.copy from folders to buckets of running servers and back: large objects in parts, resumption after faults, comparison of digests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.operations.copy.test_copy import Forgetful
from tests.servers.buckets import S3
from tests.servers.proxy import FaultProxy
from tests.servers.web import WebServer

import frazil
from frazil.cli.main import main
from frazil.errors import InvalidInputError, ReadOnlyError, StoreError
from frazil.operations.copy.copy import prepare_copy
from frazil.operations.copy.journal import JOURNAL_NAME
from frazil.stores import LocalStore, Store
from frazil.testing import CountingStore

VALUES = np.random.default_rng(3).integers(0, 2**16, (600, 700), np.uint16)


@pytest.fixture
def source(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path / "source")
    root = frazil.create_group(store)
    root.create_array("a", data=VALUES, chunks=(100, 100))
    store.set("large", np.random.default_rng(0).bytes(9_000_000))
    store.set("empty", b"")
    return store


def content(store: Store) -> dict[str, bytes | None]:
    return {key: store.get(key) for key in store.list()}


def test_copies_to_a_bucket_and_back_are_unchanged(tmp_path: Path, source: LocalStore, s3: S3) -> None:
    runtime = frazil.Runtime(bytes_in_flight=2**22)
    bucket = s3.store(prefix="copies/first")
    done = frazil.copy(source, bucket, runtime=runtime, verify=True)
    assert done.keys == len(source.list())
    assert content(bucket) == content(source)
    back = LocalStore(tmp_path / "back")
    frazil.copy(bucket, back, runtime=runtime, verify=True)
    assert content(back) == content(source)
    other = s3.store()
    frazil.copy(bucket, other, to="x", runtime=runtime)
    narrow = s3.store(prefix="narrow", requests_in_flight=1)
    frazil.copy(bucket, narrow, to="a", runtime=runtime)
    frazil.copy(narrow, narrow, path="a", to="b", runtime=runtime._replace(requests_in_flight=1))
    assert narrow.get("b/large") == source.get("large")
    assert content(other) == {f"x/{key}": value for key, value in content(source).items()}
    for inside in ("", "a", "a/b"):
        with pytest.raises(InvalidInputError, match=r"same location|inside the other"):
            frazil.copy(bucket, bucket, to=inside, overwrite=True)


def test_between_buckets_digests_tell_what_is_there(source: LocalStore, s3: S3) -> None:
    first, second = s3.store(), s3.store()
    source.erase("large")
    frazil.copy(source, first)
    frazil.copy(first, second)
    value = first.get("a/c/0/0") or b""
    first.set("a/c/0/0", bytes(len(value)))
    second.set(JOURNAL_NAME, prepare_copy(first, s3.store()).journal.emit())
    done = frazil.copy(first, second)
    assert (done.keys, done.found) == (1, len(first.list()) - 1)
    assert content(second) == content(first)


def test_verifying_by_digests_reads_nothing_twice(tmp_path: Path, source: LocalStore, s3: S3) -> None:
    first, second = CountingStore(s3.store()), CountingStore(s3.store())
    chunks = {key for key in source.list() if "/c/" in key}
    frazil.copy(source, first, verify=True, runtime=frazil.Runtime(bytes_in_flight=2**22))
    assert chunks.isdisjoint(read(first))
    assert "large" in read(first), "of what was put in parts there is no digest"
    for target in (second, LocalStore(tmp_path / "back")):
        first.clear()
        frazil.copy(first, target, verify=True)
        assert content(target) == content(source)
        assert sorted(key for key in read(first) if key in chunks) == sorted(chunks)
    second.clear()
    frazil.copy(first, second, verify=True, overwrite=True)
    assert chunks.isdisjoint(read(second))


@pytest.mark.parametrize("of_bucket", [False, True])
def test_verifying_by_digests_finds_other_bytes(of_bucket: bool, source: LocalStore, s3: S3) -> None:
    origin: Store = source
    if of_bucket:
        origin = s3.store()
        frazil.copy(source, origin)
    with pytest.raises(StoreError, match="other bytes than the source"):
        frazil.copy(origin, Forgetful(s3.store()), verify=True)
    wrong = s3.store()
    frazil.copy(origin, wrong)
    value = wrong.get("a/c/0/0") or b""
    wrong.set("a/c/0/0", bytes(len(value)))
    wrong.set(JOURNAL_NAME, prepare_copy(origin, s3.store()).journal.emit())
    done = frazil.copy(origin, wrong, verify=True)
    assert done.keys >= 1
    assert content(wrong) == content(source)


def read(store: CountingStore) -> list[str]:
    """The keys whose bytes were read, once for each read."""
    return [done.key for done in store.requests if done.operation == "fetch"]


def test_after_a_server_failed_the_rest_is_copied(source: LocalStore, s3: S3) -> None:
    name = s3.new_bucket()
    with FaultProxy(s3.endpoint) as proxy:
        bucket = s3.store(name, endpoint=proxy.url, retry_config={"max_retries": 0})
        proxy.fail("PUT .*/a/c/3", "403", None)
        with pytest.raises(StoreError):
            frazil.copy(source, bucket)
        there = s3.store(name)
        assert not there.exists("zarr.json")
        assert there.exists(JOURNAL_NAME)
    done = frazil.copy(source, there)
    assert content(there) == content(source)
    assert done.keys + done.found == len(source.list())


def test_by_url_on_the_command_line(
    tmp_path: Path, s3: S3, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    repo = frazil.Repository.create(tmp_path / "sea.repo", durable=False)
    with repo.transaction(message="first") as root:
        root.create_array("level1/temp", data=VALUES, chunks=(100, 100))
    url = s3.url(prefix="sea.repo")
    assert main(["copy", str(tmp_path / "sea.repo"), url, "--verify"]) == 0
    assert main(["copy", f"{url}@main/level1", str(tmp_path / "level1.zarr")]) == 0
    np.testing.assert_array_equal(frazil.open_array(tmp_path / "level1.zarr" / "temp")[...], VALUES)
    assert main(["copy", str(tmp_path / "level1.zarr"), f"{url}@main/copy", "-m", "more"]) == 0
    capfd.readouterr()
    assert main(["ls", url, "--recursive"]) == 0
    assert [line.split()[0] for line in capfd.readouterr().out.splitlines()] == [
        "copy/",
        "copy/temp",
        "level1/",
        "level1/temp",
    ]


def test_web_servers_that_cannot_be_listed(tmp_path: Path, source: LocalStore, web_server: WebServer) -> None:
    with web_server(Path(source.path)) as url, pytest.raises(StoreError, match="cannot be listed"):
        frazil.copy(url, tmp_path / "copy")
    with pytest.raises(ReadOnlyError):
        frazil.copy(source, LocalStore(tmp_path / "copy", read_only=True))
    assert not (tmp_path / "copy").exists()
