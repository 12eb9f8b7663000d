"""Conditional writes to real servers whose answers are lost on the way: reports are true, and nothing happens twice."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from urllib.parse import unquote

import numpy as np
import pytest
from tests.api.stored_files import check_files
from tests.faults import test_committers as committers
from tests.faults.concurrent_calls import in_threads
from tests.faults.faulty_buckets import QUICK, FaultyBucket
from tests.faults.test_writers import create, inner_chunks, write_share
from tests.servers.buckets import Buckets
from tests.servers.proxy import FaultProxy, Request

import frazil
from frazil.errors import AlreadyExistsError, StoreError
from frazil.stores.objects import object_store
from frazil.stores.objects.object_store import ObjectStore
from frazil.stores.transfer.value_copies import put_parts
from frazil.stores.values import ABSENT, Changed

BRANCH_FILE, TAG_FILE, SHARD = "PUT /refs/branch", "PUT /refs/tag", "PUT /c/0/0"


@pytest.fixture(params=["s3", "azure"])
def server(request: pytest.FixtureRequest) -> Buckets:
    return request.getfixturevalue(request.param)  # type: ignore[no-any-return]


@pytest.fixture
def proxy(server: Buckets) -> Iterator[FaultProxy]:
    with FaultProxy(server.endpoint) as proxy:
        yield proxy


@pytest.fixture
def bucket(server: Buckets, proxy: FaultProxy) -> FaultyBucket:
    return FaultyBucket(server, proxy)


def committed(bucket: FaultyBucket) -> tuple[frazil.Repository, frazil.Session]:
    """A repository of one commit, and a session with a change."""
    with frazil.Repository.create(bucket.direct).transaction(message="first") as root:
        root.create_array("a", shape=(8,), dtype="i4", chunks=(4,))[...] = 1
    repo = frazil.Repository.open(bucket.through)
    session = repo.writable_session()
    session.root["a"][...] = 2  # type: ignore[index]
    return repo, session


def messages(store: ObjectStore) -> list[str]:
    return [commit.message for commit in frazil.Repository.open(store).history()][:-1]


@pytest.mark.parametrize("times", [1, 2])
def test_a_commit_that_happened_is_reported_as_committed(bucket: FaultyBucket, times: int) -> None:
    repo, session = committed(bucket)
    bucket.proxy.fail(BRANCH_FILE, "lost answer", times)
    identity = session.commit("second")
    assert len(bucket.proxy.requests_matching(BRANCH_FILE)) >= 1
    assert frazil.Repository.open(bucket.direct).lookup("main") == identity == repo.lookup("main")
    assert messages(bucket.direct) == ["second", "first"]
    check_files(bucket.direct)
    session.root["a"][0] = 3  # type: ignore[index]
    session.commit("third")
    root = frazil.Repository.open(bucket.direct).readonly_session().root
    assert root["a"][:2].tolist() == [3, 2]  # type: ignore[call-overload, union-attr]


def test_a_commit_that_did_not_happen_happens_then(bucket: FaultyBucket) -> None:
    _, session = committed(bucket)
    bucket.proxy.fail(BRANCH_FILE, "no answer")
    try:
        session.commit("second")
    except StoreError:
        assert messages(bucket.direct) == ["first"]
        session.commit("second")
    assert messages(bucket.direct) == ["second", "first"]


def test_a_rival_is_no_lost_answer(bucket: FaultyBucket) -> None:
    """The file that exists after a lost answer is another writer's: a conflict, and no commit of ours."""
    _, session = committed(bucket)

    def rival(request: Request) -> bool:
        if request.method != "PUT" or "/refs/branch" not in request.path:
            return False
        with frazil.Repository.open(bucket.direct).transaction(message="rival") as root:
            root["a"][...] = 5  # type: ignore[index]
        return True

    bucket.proxy.fail(rival, "lost answer")
    assert isinstance(bucket.refused(lambda: session.commit("second")), frazil.errors.ConflictError)
    assert messages(bucket.direct) == ["rival", "first"]


def test_a_repository_a_branch_and_a_tag_are_created_once(bucket: FaultyBucket) -> None:
    bucket.proxy.fail(BRANCH_FILE, "lost answer", 2)
    bucket.proxy.fail(TAG_FILE, "lost answer", 1)
    repo = frazil.Repository.create(bucket.through)
    repo.create_branch("other", repo.lookup("main"))
    repo.create_tag("v1", repo.lookup("main"))
    assert bucket.refused(lambda: repo.create_tag("v1", repo.lookup("main"))).__class__ is AlreadyExistsError
    there = frazil.Repository.open(bucket.direct)
    assert (there.branches, there.tags) == (["main", "other"], ["v1"])
    assert len({there.lookup(name) for name in ("main", "other", "v1")}) == 1


@pytest.mark.parametrize("fault", ["lost answer", "no answer", "503"])
def test_creating_and_swapping_values(bucket: FaultyBucket, fault: str) -> None:
    store = bucket.through
    bucket.proxy.fail("PUT .", fault)
    assert store.create("a", b"1") is True
    assert store.create("a", b"1") is False, "of the same bytes, but not created by this call"
    first = store.get_versioned("a")
    assert first is not None
    bucket.proxy.fail("PUT .", fault)
    second = store.put("a", b"2", first[1])
    assert isinstance(second, bytes)
    assert bucket.direct.get_versioned("a") == (b"2", second)
    assert store.put("a", b"3", first[1]) == Changed(second)
    bucket.proxy.fail("PUT .", fault)
    assert store.put("a", b"3", ABSENT) == Changed(second, lost=fault != "503")
    assert store.get("a") == b"2"


@pytest.mark.parametrize("server", ["s3", "azure", "gcs"], indirect=True)
def test_writes_that_a_proxy_repeats(bucket: FaultyBucket) -> None:
    """The server refuses the second one, whose answer arrives."""
    create(bucket.direct, "chunk", shape=(0, 2), chunks=(2, 2))
    bucket.proxy.fail("PUT .", "sent twice", None)
    bucket.proxy.fail("POST .", "sent twice", None)
    store = bucket.through
    frazil.open_array(store, "r+").append(np.array([[1, 1]], "i4"))
    assert frazil.open_array(bucket.direct).shape == (1, 2)
    assert store.create("a", b"1") is True
    store.update("a", count_up)
    assert store.get("a") == b"2"
    assert store.put("empty", b"", ABSENT) == bucket.direct.get_versioned("empty")[1]  # type: ignore[index]


@pytest.mark.parametrize("times", [1, None])
def test_values_in_parts_are_stored_when_the_answer_to_their_end_is_lost(
    bucket: FaultyBucket, times: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client asks again, and the server refuses that (NoSuchUpload, InvalidBlockList), as the parts have become the object. Other refusals are errors."""
    end = "POST uploadId=" if bucket.server.scheme == "s3" else "PUT comp=blocklist"
    value = bytes(range(256)) * (2**15 + 1)  # two parts
    monkeypatch.setattr(object_store, "MULTIPART", 2**23)

    def streamed() -> bytes:
        put_parts(bucket.through, "a", len(value), iter([value[: 2**22], value[2**22 :]]))
        return bucket.direct.get("a") or b""

    def stored(buffer: bytes | memoryview) -> bytes:
        bucket.through.set("a", buffer)
        return bucket.direct.get("a") or b""

    for call in (streamed, lambda: stored(value), lambda: stored(memoryview(bytearray(value)))):
        bucket.direct.set("a", b"old")
        bucket.proxy.fail(end, "lost answer", times)
        assert call() == value
        bucket.proxy.mend()
        bucket.direct.set("a", b"old")
        bucket.proxy.fail(end, "403", None)
        assert bucket.refused(call).__class__ is StoreError
        bucket.proxy.mend()
        assert bucket.direct.get("a") == b"old"


def test_a_shard_that_was_published(bucket: FaultyBucket) -> None:
    create(bucket.direct, "shard")
    array = frazil.open_array(bucket.through, "r+")
    for turn in range(3):
        bucket.proxy.fail(SHARD, "lost answer")
        array[4 * turn : 4 * turn + 4] = turn
    expected = np.repeat([0, 1, 2, -1], [4, 4, 4, 20])[:, None]
    assert (frazil.open_array(bucket.direct)[...] == expected).all()


class Overtaken:
    """The answer to the first write of a key is lost; before it is written again, another writer writes the key. With `heard` False, the first one does not
    arrive."""

    def __init__(self, bucket: FaultyBucket, key: str, rival: Callable[[], object], *, heard: bool = True) -> None:
        self.key, self.rival, self.tries = key, rival, itertools.count(1)
        bucket.proxy.fail(self, "lost answer" if heard else "no answer", None)

    def __call__(self, request: Request) -> bool:
        if request.method != "PUT" or self.key not in unquote(request.path):
            return False
        tries = next(self.tries)
        if tries == 2:
            self.rival()
        return tries == 1


def count_up(old: bytes | None) -> bytes:
    return b"%d" % (int(old or b"0") + 1)


@pytest.mark.parametrize("server", ["s3", "azure", "gcs"], indirect=True)
def test_a_stored_value_that_was_replaced_is_not_stored_again(bucket: FaultyBucket) -> None:
    """A lost write that was done may have been replaced since: the error says that the outcome is unknown."""
    bucket.direct.set("n", b"1")
    Overtaken(bucket, "/n", lambda: bucket.direct.update("n", count_up))
    error = bucket.refused(lambda: bucket.through.update("n", count_up))
    assert isinstance(error, StoreError)
    assert error.hint is not None
    assert bucket.direct.get("n") == b"3", "each once"
    version = bucket.direct.get_versioned("n")
    assert version is not None
    proxied = bucket.reached()
    bucket.proxy.mend()
    Overtaken(bucket, "/n", lambda: bucket.direct.set("n", b"other"))
    answer = proxied.put("n", b"4", version[1])
    assert isinstance(answer, Changed)
    assert answer.lost
    assert (bucket.direct.get("n"), bucket.direct.get_versioned("n")) == (b"other", (b"other", answer.version))


@pytest.mark.parametrize("server", ["s3", "azure", "gcs"], indirect=True)
def test_the_same_bytes_of_another_writer_are_not_ours(bucket: FaultyBucket) -> None:
    """ETags may be computed from the bytes: they do not identify the writer."""
    bucket.direct.set("n", b"1")
    Overtaken(bucket, "/n", lambda: bucket.direct.update("n", count_up), heard=False)
    bucket.refused(lambda: bucket.through.update("n", count_up))
    assert bucket.direct.get("n") == b"2", "ours did not happen, and was not told to have happened"
    Overtaken(bucket, "/new", lambda: bucket.direct.create("new", b"same"), heard=False)
    assert bucket.through.create("new", b"same") is False


def test_appended_rows_are_there_once(bucket: FaultyBucket) -> None:
    create(bucket.direct, "chunk", shape=(0, 2), chunks=(2, 2))
    rows = np.array([[1, 1]], "i4")
    Overtaken(bucket, "/zarr.json", lambda: frazil.open_array(bucket.direct, "r+").append(rows + 1))
    bucket.refused(lambda: frazil.open_array(bucket.through, "r+").append(rows))
    found = frazil.open_array(bucket.direct)[...]
    assert (found == 2).all(axis=1).sum() == 1
    assert len(found) <= 2


def test_a_shard_that_was_overtaken_has_both(bucket: FaultyBucket) -> None:
    create(bucket.direct, "shard")
    Overtaken(bucket, "/c/0/0", lambda: frazil.open_array(bucket.direct, "r+").__setitem__((slice(8, 12), 0), 2))
    frazil.open_array(bucket.through, "r+")[0:4] = 1
    found = frazil.open_array(bucket.direct)[...]
    assert (found[:4] == 1).all()
    assert (found[8:12, 0] == 2).all()


class Unlucky:
    """Every third matching request, of any client."""

    def __init__(self, method: str, part: str) -> None:
        self.method, self.part, self.count = method, part, itertools.count(1)

    def __call__(self, request: Request) -> bool:
        return request.method == self.method and self.part in request.path and next(self.count) % 3 == 0


def test_many_writers_of_a_shard_lose_answers(bucket: FaultyBucket) -> None:
    create(bucket.direct, "shard")
    bucket.proxy.fail(Unlucky("PUT", "/c/0/0"), "lost answer", None)
    store = bucket.reached(retry_config={**QUICK["retry_config"], "max_retries": 20})

    def write(writer: int) -> None:
        write_share(frazil.open_array(store, "r+"), inner_chunks(writer, 4)[:5], writer, 1)

    in_threads(4, write)
    found = frazil.open_array(bucket.direct)[...]
    for writer in range(4):
        for number, where in enumerate(inner_chunks(writer, 4)[:5]):
            assert (found[where] == 1000 * writer + number % 10).all()


def test_many_committers_lose_answers(bucket: FaultyBucket) -> None:
    """Each commit is reported as committed, is there once, and counts once."""
    writers, turns = 3, 4
    repo = committers.begin(bucket.direct, writers)  # type: ignore[arg-type]
    bucket.proxy.fail(Unlucky("PUT", "/refs/branch"), "lost answer", None)
    store = bucket.reached(retry_config={**QUICK["retry_config"], "max_retries": 20})
    in_threads(writers, lambda writer: committers.count_up(store, turns, writer))  # type: ignore[arg-type]
    committers.check_counted(repo.readonly_session().root, writers, turns)
    assert sorted(committers.messages_of(repo)) == sorted(
        f"{w} {t}" for w in range(writers) for t in range(1, turns + 1)
    )
