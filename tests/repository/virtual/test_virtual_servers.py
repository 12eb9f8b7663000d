"""Virtual chunks on real servers: in buckets with their own credentials, and on web servers."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from obstore.store import HTTPStore, S3Store
from tests.servers.buckets import S3
from tests.servers.proxy import FaultProxy
from tests.servers.scripted import answer, scripted
from tests.servers.web import WebServer

import frazil
from frazil.errors import DataError, InvalidInputError, StoreError
from frazil.repository.virtual.virtual_fetch import open_containers
from frazil.stores import ObjectStore
from frazil.stores.memory import MemoryStore
from frazil.testing import CountingStore

MOMENT = timedelta(milliseconds=1)
DATA = np.arange(20000, dtype="<u2")
NAMES = ["a b", "a%20b", "ä", "a+b", "a?b", "a#b", "a&b=c"]


def filled(store: frazil.stores.Store, prefixes: object, url: str, **options: object) -> frazil.Repository:
    """A repository in a store, whose array t is in the file at a URL."""
    repo = frazil.Repository.create(store, virtual_prefixes=prefixes)  # type: ignore[arg-type]
    session = repo.writable_session()
    session.root.create_array("t", shape=DATA.shape, dtype="u2", chunks=1000, codecs=[])
    rows = np.arange(20)
    session.set_virtual_chunks("t", rows[:, None], url, rows * 2000, 2000, **options)  # type: ignore[arg-type]
    session.commit("references")
    return repo


def values(repo: frazil.Repository) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    return np.asarray(repo.readonly_session().root["t"][...])


def client(s3: S3, bucket: str) -> S3Store:
    options = {f"aws_{name}": value for name, value in s3.options().items()}
    return S3Store(bucket, client_options={"allow_http": options.pop("aws_allow_http") == "true"}, **options)  # type: ignore[arg-type]


@contextmanager
def variables(s3: S3) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in s3.environment().items():
            patch.setenv(name, value)
        yield


@pytest.fixture
def bucket(s3: S3) -> str:
    name = s3.new_bucket()
    s3.store(name).set("in/d.bin", DATA.tobytes())
    return name


@pytest.mark.parametrize("given", ["store", "client", "environment", "wrapped", "below"])
def test_a_bucket_with_credentials(given: str, s3: S3, bucket: str) -> None:
    prefix: str = f"s3://{bucket}/"
    store = s3.store(bucket)
    prefixes: object = {
        "store": {prefix: store},
        "client": {prefix: client(s3, bucket)},
        "wrapped": {prefix: CountingStore(store)},
        "below": {f"{prefix}in/": s3.store(bucket, "in")},
        "environment": [prefix],
    }[given]
    location = MemoryStore()
    with variables(s3):
        repo = filled(location, prefixes, f"{prefix}in/d.bin")
        assert np.array_equal(values(repo), DATA)
        store.set("in/d.bin", DATA.tobytes()[::-1])
        for allowed in (prefixes, [prefix], {prefix: store}, {f"{prefix}in/": s3.store(bucket, "in")}):
            again = frazil.Repository.open(location, virtual_prefixes=allowed)  # type: ignore[arg-type]
            with pytest.raises(DataError, match="it had the version") as caught:
                values(again)
            assert caught.value.key == f"{prefix}in/d.bin" and caught.value.chunk == (0,)
        store.erase("in/d.bin")
        with pytest.raises(StoreError, match="does not exist"):
            values(repo)


@pytest.mark.parametrize("kind", ["azure", "gcs"])
def test_virtual_chunks_in_google_and_azure_are_read(kind: str, request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue(kind)
    bucket = server.new_bucket()
    store, url = server.store(bucket), server.url(bucket, "in/d.bin")
    store.set("in/d.bin", DATA.tobytes())
    counting = CountingStore(store)
    repo = filled(MemoryStore(), {server.url(bucket) + "/": counting}, url)
    (check,) = open_containers({server.url(bucket) + "/": store}).look_up([url]).values()
    assert check.size == DATA.nbytes and check.tag and not check.mapped_to
    counting.clear()
    assert np.array_equal(values(repo), DATA)
    assert counting.count() == 1
    store.set("in/d.bin", DATA.tobytes()[::-1])
    with pytest.raises(DataError, match="it had the version"):
        values(repo)


def test_the_keys_of_a_session_have_their_bytes(s3: S3, bucket: str) -> None:
    """As `frazil serve` and `frazil copy` read them."""
    store = CountingStore(s3.store(bucket))
    session = filled(MemoryStore(), {f"s3://{bucket}/": store}, f"s3://{bucket}/in/d.bin").readonly_session()
    store.clear()
    keys = ["t/c/3", "t/c/4", "t/c/17"]
    assert session.store.sizes(keys).tolist() == [2000] * 3 and store.count() == 0
    found = session.store.get_partial_values([(key, (10, 4)) for key in keys])
    assert found == [DATA.tobytes()[at * 2000 + 10 :][:4] for at in (3, 4, 17)]
    assert store.count() == 1


def test_secrets_are_neither_stored_nor_shown(s3: S3, bucket: str, tmp_path: Path) -> None:
    prefixes = {f"s3://{bucket}/": s3.store(bucket)}
    repo = filled(frazil.stores.LocalStore(tmp_path), prefixes, f"s3://{bucket}/in/d.bin")
    assert s3.secret not in repr(repo) + repr(repo.readonly_session()) + repr(repo._options)
    kept = b"".join([path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()])
    assert s3.secret.encode() not in kept and b"ObjectStore" not in kept
    wrong = {f"s3://{bucket}/": ObjectStore(f"s3://{bucket}", **{**s3.options(), "secret_access_key": "OPENSESAME"})}
    with pytest.raises(StoreError) as caught:
        values(frazil.Repository.open(tmp_path, virtual_prefixes=wrong))
    assert caught.value.key == f"s3://{bucket}/in/d.bin" and caught.value.hint is not None
    assert "OPENSESAME" not in str(caught.value) + repr(caught.value.__context__) + repr(caught.value.__cause__)


def test_two_prefixes_with_different_stores(s3: S3, bucket: str, tmp_path: Path, web_server: WebServer) -> None:
    (tmp_path / "d.bin").write_bytes(DATA.tobytes())
    with web_server(tmp_path) as url:
        prefixes = {f"s3://{bucket}/": CountingStore(s3.store(bucket)), f"{url}/": CountingStore(ObjectStore(url))}
        repo = frazil.Repository.create(MemoryStore(), virtual_prefixes=prefixes)
        session = repo.writable_session()
        session.root.create_array("t", shape=DATA.shape, dtype="u2", chunks=1000, codecs=[])
        rows = np.arange(20)
        urls = [(f"s3://{bucket}/in/d.bin", f"{url}/d.bin")[row % 2] for row in rows]
        session.set_virtual_chunks("t", rows[:, None], urls, rows * 2000, 2000)
        session.commit("references")
        for store in prefixes.values():
            assert store.count() == store.count("look up") == 1
            store.clear()
        assert np.array_equal(values(repo), DATA)
        for store in prefixes.values():
            assert store.count() == store.count("fetch") == 1


def test_a_version_is_asked_for_by_the_server(s3: S3, bucket: str) -> None:
    location = MemoryStore()
    filled(location, {f"s3://{bucket}/": s3.store(bucket)}, f"s3://{bucket}/in/d.bin")
    with FaultProxy(s3.endpoint) as proxy:
        far = ObjectStore(f"s3://{bucket}", **s3.options(proxy.url))
        assert np.array_equal(values(frazil.Repository.open(location, virtual_prefixes={f"s3://{bucket}/": far})), DATA)
        (request,) = proxy.requests
        headers = {name.lower(): value for name, value in request.headers.items()}
        assert request.method == "GET" and headers["if-match"].strip('"') and headers["range"] == "bytes=0-39999"


def test_a_worker_in_another_process(s3: S3, bucket: str, tmp_path: Path) -> None:
    repo = filled(frazil.stores.LocalStore(tmp_path), {f"s3://{bucket}/": s3.store(bucket)}, f"s3://{bucket}/in/d.bin")
    session = repo.writable_session()
    task = (session.fork(), [[0], [1]], f"s3://{bucket}/in/d.bin", [2000, 0], 2000)
    program = """
import pickle, sys
fork, *arguments = pickle.load(sys.stdin.buffer)
fork.set_virtual_chunks("t", *arguments)
assert fork.open("t")[0] == 1000
pickle.dump(fork, sys.stdout.buffer)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], input=pickle.dumps(task), capture_output=True, timeout=120, check=True
    )
    session.merge(pickle.loads(done.stdout))
    session.commit("by a worker")
    expected = np.concatenate((DATA[1000:2000], DATA[:1000], DATA[2000:]))
    assert np.array_equal(values(repo), expected)


@pytest.mark.parametrize("name", NAMES)
def test_names_with_signs_in_a_bucket(name: str, s3: S3) -> None:
    """The key is the one in the URL."""
    bucket = s3.new_bucket()
    for number, other in enumerate(NAMES):
        s3.store(bucket).set(f"x/{other}", (DATA if other == name else np.full_like(DATA, number)).tobytes())
    repo = filled(MemoryStore(), {f"s3://{bucket}/x/": s3.store(bucket, "x")}, f"s3://{bucket}/x/{name}")
    assert np.array_equal(values(repo), DATA)


@pytest.mark.parametrize(
    ("name", "spelled"), [("a b", "a%20b"), ("a%20b", "a%2520b"), ("ä", "ä"), ("a+b", "a+b"), ("a?b#", "a%3Fb%23")]
)
def test_names_with_signs_on_a_web_server(name: str, spelled: str, tmp_path: Path, web_server: WebServer) -> None:
    """The name is spelled as in the URL."""
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / name).write_bytes(DATA.tobytes())
    with web_server(tmp_path) as url:
        assert np.array_equal(values(filled(MemoryStore(), [f"{url}/x/"], f"{url}/x/{spelled}")), DATA)
        mapped = filled(MemoryStore(), {"https://elsewhere/": f"{url}/x"}, f"https://elsewhere/{spelled}")
        assert np.array_equal(values(mapped), DATA)


@pytest.mark.parametrize("ranges", [True, False])
def test_a_web_server(ranges: bool, tmp_path: Path, web_server: WebServer) -> None:
    (tmp_path / "d.bin").write_bytes(DATA.tobytes())
    with web_server(tmp_path, ranges=ranges, suffix=False) as url:
        repo = filled(MemoryStore(), [f"{url}/"], f"{url}/d.bin")
        assert np.array_equal(values(repo), DATA)
        state = (tmp_path / "d.bin").stat()
        os.utime(tmp_path / "d.bin", ns=(0, state.st_mtime_ns + 10**9))
        with pytest.raises(DataError, match="it had the version") as caught:
            values(repo)
        assert caught.value.key == f"{url}/d.bin"
        with pytest.raises(StoreError, match="does not exist"):
            (tmp_path / "d.bin").unlink()
            values(repo)
        with pytest.raises(InvalidInputError, match="outside of the prefixes"):
            values(frazil.Repository.open(repo._files.store, virtual_prefixes=[f"{url}/other/"]))


@pytest.mark.parametrize("given", ["prefix", "store", "client", "url"])
def test_redirects_stay_below_the_prefixes(given: str, tmp_path: Path, web_server: WebServer) -> None:
    """A redirect of an allowed server is followed if the target is allowed too, for any mapping of the prefix; other servers never get a request."""
    (tmp_path / "allowed").mkdir()
    (tmp_path / "allowed" / "d.bin").write_bytes(DATA.tobytes())
    with web_server(tmp_path) as there:
        with scripted(lambda request: answer(302, Location=f"{there}/allowed/d.bin")) as here:
            prefix = f"{here.url}/"
            own: dict[str, object] = {
                "prefix": None,
                "store": ObjectStore(here.url),
                "client": HTTPStore(here.url, client_options={"allow_http": True}),
                "url": here.url,
            }
            location = MemoryStore()
            both = {prefix: own[given], f"{there}/allowed/": None}
            assert np.array_equal(values(filled(location, both, f"{prefix}d.bin")), DATA)
            for prefixes in ({prefix: own[given]}, {prefix: own[given], f"{there}/other/": None}):
                repo = frazil.Repository.open(location, virtual_prefixes=prefixes)  # type: ignore[arg-type]
                with pytest.raises(StoreError, match=f"redirects to {there}/allowed/d.bin") as caught:
                    values(repo)
                assert caught.value.key == f"{prefix}d.bin"


def test_a_missing_server(tmp_path: Path, web_server: WebServer) -> None:
    (tmp_path / "d.bin").write_bytes(DATA.tobytes())
    quick = {"retry_config": {"max_retries": 0}}
    with web_server(tmp_path) as url:
        repo = filled(MemoryStore(), [f"{url}/"], f"{url}/d.bin")
    location = repo._files.store
    repo = frazil.Repository.open(location, virtual_prefixes={f"{url}/": ObjectStore(url, **quick)})
    with pytest.raises(StoreError, match="cannot be read") as caught:
        values(repo)
    assert caught.value.key == f"{url}/d.bin" and caught.value.chunk == (0,)


@pytest.mark.parametrize("fault", ["lost answer", "cut body", "wrong length", "503", "403"])
def test_trouble_is_an_error_or_tried_again_and_never_another_value(fault: str, s3: S3, bucket: str) -> None:
    location, url = MemoryStore(), f"s3://{bucket}/in/d.bin"
    filled(location, {f"s3://{bucket}/": s3.store(bucket)}, url)
    with FaultProxy(s3.endpoint) as proxy:
        quick = {
            "retry_config": {
                "max_retries": 1,
                "backoff": {"init_backoff": MOMENT, "max_backoff": 2 * MOMENT, "base": 2},
            }
        }
        far = ObjectStore(f"s3://{bucket}", **s3.options(proxy.url), **quick)
        repo = frazil.Repository.open(location, virtual_prefixes={f"s3://{bucket}/": far})
        proxy.fail("GET d.bin", fault, times=None)
        with pytest.raises(StoreError, match="cannot be read") as caught:
            values(repo)
        assert caught.value.key == url and caught.value.chunk == (0,)
        assert s3.secret not in str(caught.value)
        proxy.mend()
        proxy.fail("GET d.bin", fault)
        if fault == "403":
            with pytest.raises(StoreError, match="not permit"):
                values(repo)
        assert np.array_equal(values(repo), DATA)
