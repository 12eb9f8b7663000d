"""A proxy that makes trouble in front of a real S3 server: answers that are lost, servers that are busy, silent, cut off, wrong or that refuse. What is told is true; what
cannot be had is an error, in one line, without a secret; nothing is a fill value, and nothing is tried for ever."""

from __future__ import annotations

import itertools
import socket
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from urllib.parse import unquote

import numpy as np
import pytest
from tests.api.stored_files import check_files
from tests.faults import test_committers as committers
from tests.faults.test_writers import create, inner_chunks, write_share
from tests.faults.together import in_threads
from tests.servers.buckets import S3, Buckets
from tests.servers.proxy import FaultProxy, Request
from tests.servers.web import serving

import frazil
from frazil.errors import AlreadyExistsError, FrazilError, StoreError
from frazil.stores.object_store import ObjectStore
from frazil.stores.store import ABSENT, Changed

QUICK = {
    "retry_config": {
        "max_retries": 2,
        "backoff": {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=5), "base": 2},
        "retry_timeout": timedelta(seconds=20),
    },
    "client_options": {"timeout": "20s"},
}
BRANCH_FILE, TAG_FILE, SHARD = "PUT /refs/branch", "PUT /refs/tag", "PUT /c/0/0"


@pytest.fixture(params=["s3", "azure"])
def server(request: pytest.FixtureRequest) -> Buckets:
    return request.getfixturevalue(request.param)  # type: ignore[no-any-return]


@pytest.fixture
def proxy(server: Buckets) -> Iterator[FaultProxy]:
    with FaultProxy(server.endpoint) as proxy:
        yield proxy


class Place:
    """One bucket, reached directly and through the proxy."""

    def __init__(self, server: Buckets, proxy: FaultProxy) -> None:
        self.server, self.proxy, self.bucket = server, proxy, server.new_bucket()
        self.direct = server.store(self.bucket, "x")
        self.through = self.reached()

    def reached(self, **options: object) -> ObjectStore:
        return self.server.store(self.bucket, "x", endpoint=self.proxy.url, **{**QUICK, **options})

    def refused(self, call: Callable[[], object]) -> FrazilError:
        """The error of a call: one of ours, in one line, without a secret, as a user would see it."""
        with pytest.raises(FrazilError) as caught:
            call()
        error = caught.value
        assert "\n" not in error.args[0]
        told = "".join(traceback.format_exception(error)) + repr(error) + repr(self.through)
        assert self.server.secret not in told
        for request in self.proxy.requests:
            signature = request.headers["authorization"].rpartition("=" if self.server.scheme == "s3" else ":")[2]
            assert signature not in told
        return error


@pytest.fixture
def place(server: Buckets, proxy: FaultProxy) -> Place:
    return Place(server, proxy)


# --- conditional writes whose answers are lost -------------------------------------------------------------------------------------------


def committed(place: Place) -> tuple[frazil.Repository, frazil.Session]:
    """A repository of one commit, and a session that has changed something."""
    with frazil.Repository.create(place.direct).transaction(message="first") as root:
        root.create_array("a", shape=(8,), dtype="i4", chunks=(4,))[...] = 1
    repo = frazil.Repository.open(place.through)
    session = repo.writable_session()
    session.root["a"][...] = 2  # type: ignore[index]
    return repo, session


def messages(store: ObjectStore) -> list[str]:
    return [commit.message for commit in frazil.Repository.open(store).history()][:-1]


@pytest.mark.parametrize("times", [1, 2])
def test_a_commit_that_happened_is_told_as_committed(place: Place, times: int) -> None:
    repo, session = committed(place)
    place.proxy.fail(BRANCH_FILE, "lost answer", times)
    identity = session.commit("second")
    assert len(place.proxy.asked(BRANCH_FILE)) >= 1
    assert frazil.Repository.open(place.direct).lookup("main") == identity == repo.lookup("main")
    assert messages(place.direct) == ["second", "first"]
    check_files(place.direct)
    session.root["a"][0] = 3  # type: ignore[index]
    session.commit("third")
    root = frazil.Repository.open(place.direct).readonly_session().root
    assert root["a"][:2].tolist() == [3, 2]  # type: ignore[call-overload, union-attr]


def test_a_commit_that_did_not_happen_happens_then(place: Place) -> None:
    _, session = committed(place)
    place.proxy.fail(BRANCH_FILE, "no answer")
    try:
        session.commit("second")
    except StoreError:
        assert messages(place.direct) == ["first"]
        session.commit("second")
    assert messages(place.direct) == ["second", "first"]


def test_a_rival_is_no_lost_answer(place: Place) -> None:
    """The file that is there after a lost answer is somebody else's: a conflict, and no commit of ours."""
    _, session = committed(place)

    def rival(request: Request) -> bool:
        if request.method != "PUT" or "/refs/branch" not in request.path:
            return False
        with frazil.Repository.open(place.direct).transaction(message="rival") as root:
            root["a"][...] = 5  # type: ignore[index]
        return True

    place.proxy.fail(rival, "lost answer")
    assert isinstance(place.refused(lambda: session.commit("second")), frazil.errors.ConflictError)
    assert messages(place.direct) == ["rival", "first"]


def test_a_repository_a_branch_and_a_tag_are_created_once(place: Place) -> None:
    place.proxy.fail(BRANCH_FILE, "lost answer", 2)
    place.proxy.fail(TAG_FILE, "lost answer", 1)
    repo = frazil.Repository.create(place.through)
    repo.create_branch("other", repo.lookup("main"))
    repo.create_tag("v1", repo.lookup("main"))
    assert place.refused(lambda: repo.create_tag("v1", repo.lookup("main"))).__class__ is AlreadyExistsError
    there = frazil.Repository.open(place.direct)
    assert (there.branches, there.tags) == (["main", "other"], ["v1"])
    assert len({there.lookup(name) for name in ("main", "other", "v1")}) == 1


@pytest.mark.parametrize("fault", ["lost answer", "no answer", "503"])
def test_creating_and_swapping_values(place: Place, fault: str) -> None:
    store = place.through
    place.proxy.fail("PUT .", fault)
    assert store.create("a", b"1") is True
    assert store.create("a", b"1") is False, "of the same bytes, but not created by this call"
    first = store.get_versioned("a")
    assert first is not None
    place.proxy.fail("PUT .", fault)
    second = store.put("a", b"2", first[1])
    assert isinstance(second, bytes)
    assert place.direct.get_versioned("a") == (b"2", second)
    assert store.put("a", b"3", first[1]) == Changed(second)
    place.proxy.fail("PUT .", fault)
    assert store.put("a", b"3", ABSENT) == Changed(second, lost=fault != "503")
    assert store.get("a") == b"2"


def test_a_shard_that_was_published(place: Place) -> None:
    create(place.direct, "shard")
    array = frazil.open_array(place.through, "r+")
    for turn in range(3):
        place.proxy.fail(SHARD, "lost answer")
        array[4 * turn : 4 * turn + 4] = turn
    expected = np.repeat([0, 1, 2, -1], [4, 4, 4, 20])[:, None]
    assert (frazil.open_array(place.direct)[...] == expected).all()


class Overtaken:
    """The answer to the first write of a key is lost; before it is written again, somebody else is quicker. With `heard` False, the first one does not arrive."""

    def __init__(self, place: Place, key: str, rival: Callable[[], object], *, heard: bool = True) -> None:
        self.key, self.rival, self.tries = key, rival, itertools.count(1)
        place.proxy.fail(self, "lost answer" if heard else "no answer", None)

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
def test_what_was_stored_and_overtaken_is_not_stored_twice(place: Place) -> None:
    """A lost write that was done may have been replaced since: who counts is told that nobody knows."""
    place.direct.set("n", b"1")
    Overtaken(place, "/n", lambda: place.direct.update("n", count_up))
    error = place.refused(lambda: place.through.update("n", count_up))
    assert isinstance(error, StoreError)
    assert error.hint is not None
    assert place.direct.get("n") == b"3", "each once"
    version = place.direct.get_versioned("n")
    assert version is not None
    proxied = place.reached()
    place.proxy.mend()
    Overtaken(place, "/n", lambda: place.direct.set("n", b"other"))
    answer = proxied.put("n", b"4", version[1])
    assert isinstance(answer, Changed)
    assert answer.lost
    assert (place.direct.get("n"), place.direct.get_versioned("n")) == (b"other", (b"other", answer.version))


@pytest.mark.parametrize("server", ["s3", "azure", "gcs"], indirect=True)
def test_the_same_bytes_of_another_writer_are_not_ours(place: Place) -> None:
    """ETags may be made of the bytes: they do not tell who wrote them."""
    place.direct.set("n", b"1")
    Overtaken(place, "/n", lambda: place.direct.update("n", count_up), heard=False)
    place.refused(lambda: place.through.update("n", count_up))
    assert place.direct.get("n") == b"2", "ours did not happen, and was not told to have happened"
    Overtaken(place, "/new", lambda: place.direct.create("new", b"same"), heard=False)
    assert place.through.create("new", b"same") is False


def test_appended_rows_are_there_once(place: Place) -> None:
    create(place.direct, "chunk", shape=(0, 2), chunks=(2, 2))
    rows = np.array([[1, 1]], "i4")
    Overtaken(place, "/zarr.json", lambda: frazil.open_array(place.direct, "r+").append(rows + 1))
    place.refused(lambda: frazil.open_array(place.through, "r+").append(rows))
    found = frazil.open_array(place.direct)[...]
    assert (found == 2).all(axis=1).sum() == 1
    assert len(found) <= 2


def test_a_shard_that_was_overtaken_has_both(place: Place) -> None:
    create(place.direct, "shard")
    Overtaken(place, "/c/0/0", lambda: frazil.open_array(place.direct, "r+").__setitem__((slice(8, 12), 0), 2))
    frazil.open_array(place.through, "r+")[0:4] = 1
    found = frazil.open_array(place.direct)[...]
    assert (found[:4] == 1).all()
    assert (found[8:12, 0] == 2).all()


class Unlucky:
    """Every third request that matches, whoever makes it."""

    def __init__(self, method: str, part: str) -> None:
        self.method, self.part, self.count = method, part, itertools.count(1)

    def __call__(self, request: Request) -> bool:
        return request.method == self.method and self.part in request.path and next(self.count) % 3 == 0


def test_many_writers_of_a_shard_lose_answers(place: Place) -> None:
    create(place.direct, "shard")
    place.proxy.fail(Unlucky("PUT", "/c/0/0"), "lost answer", None)
    store = place.reached(retry_config={**QUICK["retry_config"], "max_retries": 20})

    def write(writer: int) -> None:
        write_share(frazil.open_array(store, "r+"), inner_chunks(writer, 4)[:5], writer, 1)

    in_threads(4, write)
    found = frazil.open_array(place.direct)[...]
    for writer in range(4):
        for number, where in enumerate(inner_chunks(writer, 4)[:5]):
            assert (found[where] == 1000 * writer + number % 10).all()


def test_many_committers_lose_answers(place: Place) -> None:
    """Each commit is told as committed, is there once, and counts once."""
    writers, turns = 3, 4
    repo = committers.begin(place.direct, writers)  # type: ignore[arg-type]
    place.proxy.fail(Unlucky("PUT", "/refs/branch"), "lost answer", None)
    store = place.reached(retry_config={**QUICK["retry_config"], "max_retries": 20})
    in_threads(writers, lambda writer: committers.count_up(store, turns, writer))  # type: ignore[arg-type]
    committers.check_counted(repo.readonly_session().root, writers, turns)
    assert sorted(committers.told_of(repo)) == sorted(f"{w} {t}" for w in range(writers) for t in range(1, turns + 1))


# --- servers that are busy, silent, cut off or wrong ---------------------------------------------------------------------------------------


def filled(place: Place) -> None:
    """Arrays whose values are nowhere the fill value, in chunks and in shards, with and without checksums."""
    group = frazil.create_group(place.direct)
    values = np.arange(1, 1025, dtype="i4").reshape(32, 32)
    group.create_array("plain", shape=(32, 32), dtype="i4", chunks=(16, 16), codecs=["bytes"])[...] = values
    group.create_array("packed", shape=(32, 32), dtype="i4", chunks=(16, 16))[...] = values
    group.create_array("shards", shape=(32, 32), dtype="i4", chunks=(4, 4), shards=(16, 16), codecs=["bytes"])[...] = (
        values
    )


def read_all(store: ObjectStore) -> None:
    """Reads in all ways; what comes is right."""
    values = np.arange(1, 1025, dtype="i4").reshape(32, 32)
    group = frazil.open_group(store, "r")
    for name in ("plain", "packed", "shards"):
        array = group[name]
        assert isinstance(array, frazil.Array)
        np.testing.assert_array_equal(array[...], values)
        np.testing.assert_array_equal(array[3:21:2, 5], values[3:21:2, 5])
        assert array[31, 31] == 1024
    assert sorted(group) == ["packed", "plain", "shards"]


@pytest.mark.parametrize("fault", ["503", "429", "500", "lost answer", "no answer", "cut body"])
def test_trouble_that_passes(place: Place, fault: str) -> None:
    filled(place)
    counted = itertools.count()
    place.proxy.fail(lambda request: request.method != "HEAD" and next(counted) % 4 == 0, fault, None)
    read_all(place.through)
    assert next(counted) > 8


@pytest.mark.parametrize("fault", ["503", "no answer", "cut body", "403", "400"])
def test_trouble_that_stays(place: Place, fault: str) -> None:
    """An error of ours, after a few tries: told from what is not there, and nothing is a fill value."""
    filled(place)
    group = frazil.open_group(place.through, "r+")
    arrays = [group[name] for name in ("plain", "packed", "shards")]
    place.proxy.fail(lambda request: True, fault, None)
    calls: list[Callable[[], object]] = [lambda array=array: array[...] for array in arrays]  # type: ignore[misc]
    calls += [lambda array=array: array[5, 5] for array in arrays]  # type: ignore[misc]
    calls += [
        lambda: frazil.open_array(place.through, "r", path="plain"),
        lambda: place.through.get("nothing"),
        lambda: place.through.get_partial_values([("plain/zarr.json", (-5, 5))]),
        place.through.list,
        lambda: place.through.list_dir(""),
    ]
    if fault != "cut body":  # of an answer without a body there is nothing to cut
        calls += [
            lambda: arrays[2].__setitem__((0, 0), 7),  # type: ignore[union-attr]
            lambda: place.through.exists("plain/zarr.json"),
            lambda: place.through.set("new", b"1"),
            lambda: place.through.create("new", b"1"),
            lambda: place.through.put("plain/zarr.json", b"1", b"version"),
            lambda: place.through.erase("new"),
        ]
    for call in calls:
        before = len(place.proxy.requests)
        error = place.refused(call)
        assert isinstance(error, StoreError)
        assert 1 <= len(place.proxy.requests) - before < 60
    place.proxy.mend()
    read_all(place.direct)
    read_all(place.through)


def test_refusals_say_what_to_check(place: Place) -> None:
    filled(place)
    for status in ("403", "400"):
        place.proxy.fail(lambda request: True, status, None)
        before = len(place.proxy.requests)
        error = place.refused(lambda: place.through.get("plain/zarr.json"))
        assert error.hint is not None
        assert "credentials" in error.hint or "credentials" in str(error)
        assert len(place.proxy.requests) == before + 1, "a refusal is no reason to ask again"
        place.proxy.mend()


def test_lengths_that_are_wrong(place: Place) -> None:
    """Whatever is a byte too short is an error, also where no checksum says so."""
    filled(place)
    group = frazil.open_group(place.through, "r")
    place.proxy.fail(lambda request: request.method == "GET" and "/c/" in request.path, "wrong length", None)
    for name in ("plain", "packed", "shards"):
        array = group[name]
        assert isinstance(array, frazil.Array)
        place.refused(lambda array=array: array[...])  # type: ignore[misc]
        place.refused(lambda array=array: array[7, 7])  # type: ignore[misc]
    place.proxy.mend()
    read_all(place.through)


def test_silence(place: Place) -> None:
    """A request without an answer ends when its time is over, and is made again where that does no harm."""
    filled(place)
    store = place.reached(client_options={"timeout": "300ms"})
    place.proxy.fail("GET zarr.json", "stall")
    assert store.get("zarr.json") == place.direct.get("zarr.json")
    place.proxy.fail("PUT /created", "stall", 1)
    try:
        assert store.create("created", b"1") is True
    except StoreError:
        assert place.direct.get("created") is None
    place.proxy.fail("GET zarr.json", "stall", None)
    assert isinstance(place.refused(lambda: store.get("zarr.json")), StoreError)


def test_a_list_that_is_cut_is_no_short_list(place: Place) -> None:
    filled(place)
    keys = place.direct.list()
    for fault in ("cut body", "wrong length"):
        place.proxy.fail("GET list", fault, 1)
        try:
            assert place.through.list() == keys
        except StoreError:
            pass
        place.proxy.fail("GET list", fault, None)
        place.refused(place.through.list)
        place.proxy.mend()


# --- who is no object store ----------------------------------------------------------------------------------------------------------------


def test_nobody_listens(s3: S3) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        endpoint = f"http://127.0.0.1:{taken.getsockname()[1]}"
    store = s3.store("bucket", endpoint=endpoint, **QUICK)
    with pytest.raises(StoreError) as caught:
        store.get("a")
    assert s3.secret not in "".join(traceback.format_exception(caught.value))
    assert caught.value.hint is not None


@pytest.mark.parametrize("server", ["s3"], indirect=True)
def test_what_is_not_there(place: Place) -> None:
    """A bucket that is not there is no empty bucket."""
    other = place.server.store("no-such-bucket", "x", endpoint=place.proxy.url, **QUICK)
    for call in (lambda: other.get("a"), other.list, lambda: other.set("a", b""), lambda: other.create("a", b"")):
        assert "bucket" in f"{place.refused(call)}"


@pytest.mark.parametrize("server", ["s3"], indirect=True)
@pytest.mark.parametrize("wrong", [{"secret_access_key": "wrong"}, {"access_key_id": "nobody"}])
def test_wrong_credentials(place: Place, wrong: dict[str, str]) -> None:
    store = place.reached(**wrong)
    for call in (lambda: store.get("a"), store.list, lambda: store.set("a", b"")):
        error = place.refused(call)
        assert "wrong" not in f"{error}"
        assert "credentials" in f"{error} {error.hint}"


class Babbling(BaseHTTPRequestHandler):
    """Answers 200 with something that means nothing; or sends everybody elsewhere."""

    protocol_version = "HTTP/1.1"
    elsewhere: str | None = None
    heard: list[str]

    def do_GET(self) -> None:
        self.heard.append(self.headers.get("Authorization", ""))
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b"<html>Welcome to the guest network</html>"
        self.send_response(200 if self.elsewhere is None else 307)
        if self.elsewhere is not None:
            self.send_header("Location", self.elsewhere + self.path)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_PUT = do_POST = do_HEAD = do_DELETE = do_GET

    def log_message(self, *words: object) -> None: ...


def test_nonsense(s3: S3) -> None:
    """Of a list nobody can tell, as the client takes any XML for one: it is empty."""
    with serving(type("Handler", (Babbling,), {"heard": []})) as url:
        store = s3.store("bucket", "x", endpoint=url, **QUICK)
        for call in (
            lambda: store.create("a", b"1"),
            lambda: store.get("a"),
            lambda: store.exists("a"),
            lambda: frazil.open(store, "r"),
            lambda: frazil.copy(store, {}),
        ):
            with pytest.raises(StoreError) as caught:
                call()
            assert s3.secret not in f"{caught.value}"


def test_redirects_elsewhere(s3: S3) -> None:
    """Nobody else is told who asks, and what was meant for the server is not written elsewhere."""
    heard: list[str] = []
    with serving(type("Handler", (Babbling,), {"heard": heard})) as other:
        other = other.replace("127.0.0.1", "localhost")
        with serving(type("Handler", (Babbling,), {"heard": [], "elsewhere": other})) as url:
            store = s3.store("bucket", "x", endpoint=url, **QUICK)
            for call in (lambda: store.get("a"), lambda: store.set("a", b"1"), lambda: store.create("a", b"1")):
                with pytest.raises(StoreError) as caught:
                    call()
                assert s3.secret not in f"{caught.value}"
    assert not any(heard)
