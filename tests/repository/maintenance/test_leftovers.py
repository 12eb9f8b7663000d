"""All leftovers of writers, copies and collections, each created once: two collections remove all of them, and nothing else."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from tests.faults.concurrent_calls import fork
from tests.repository.maintenance.garbage import fill, orphan, values
from tests.servers.buckets import S3
from tests.servers.proxy import FaultProxy

import frazil
from frazil.repository.format import Answer, RepositoryFormat
from frazil.repository.maintenance.records import emit_columns
from frazil.stores.keys.names import COPY_JOURNAL

DAYS = 8 * 86400  # seconds


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def discarded_fork(repo: frazil.Repository) -> None:
    session = repo.writable_session()
    fork = session.fork()
    fork.root["a"][:2] = values(50)[:2]
    fork._transaction.changes.leave_files()


def killed_writer(repo: frazil.Repository) -> None:
    def write() -> None:
        session = repo.writable_session()
        session.root["a"][...] = values(51)
        os._exit(0)

    assert os.waitpid(fork(write), 0)[1] == 0


def lost_race(repo: frazil.Repository) -> None:
    """Snapshot and manifests of a commit that came too late, whose writer died before it removed them."""

    def lose() -> None:
        first, second = repo.writable_session(), repo.writable_session()
        for session in (first, second):
            session.root["a"][0] = values(3)[0]
        advance = type(repo._files).advance

        def late(files: RepositoryFormat, *arguments: object) -> Answer:
            type(repo._files).advance = advance  # type: ignore[method-assign,assignment]
            first.commit("first")
            return advance(files, *arguments)  # type: ignore[arg-type]

        type(repo._files).advance = late  # type: ignore[method-assign,assignment]
        type(repo._files).erase = lambda *_: os._exit(0)  # type: ignore[method-assign,assignment]
        second.commit("second")

    assert os.waitpid(fork(lose), 0)[1] == 0


def deleted_branch(repo: frazil.Repository) -> None:
    repo.create_branch("gone", "main")
    session = repo.writable_session("gone")
    session.root["a"][0] = values(52)[0]
    session.commit("on a branch")
    repo.delete_branch("gone")


MAKERS: list[Callable[[frazil.Repository], None]] = [discarded_fork, killed_writer, lost_race, deleted_branch, orphan]


def test_two_collections_remove_all_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    repo = frazil.Repository.create(folder, durable=False, chunk_packing="off")
    fill(repo)
    for make in MAKERS:
        before = files(folder)
        make(repo)
        assert {name for name in files(folder) - before if not name.startswith("refs/")}, make
    live = repo.garbage_collect(dry_run=True)
    dead = sum(live.condemned.values())
    assert dead > len(MAKERS)
    loose = ["chunks/X.__lock", "snapshots/~1-2.__lock", "manifests/.copy-1-2-3.__lock", "refs/branch.main/a.__lock"]
    loose += ["gc/marks/X.__lock", "gc/.copy-1-2-3.__lock"]
    for name in loose:
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_bytes(b"torn")
    for folder_name in ("pins", "runs"):
        path = folder / f"gc/{folder_name}/00000000000000000000"
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(emit_columns({"snapshots": np.zeros(0, "S12")}))
    (folder / COPY_JOURNAL).write_bytes(b"{}")
    then = time.time() - DAYS
    for path in folder.rglob("*"):
        os.utime(path, (then, then))
    first = repo.garbage_collect()
    assert sum(first.condemned.values()) == dead
    assert first.leftovers == len(loose) + 3
    for path in (folder / "gc/condemned").iterdir():
        os.utime(path, (then, then))
    second = repo.garbage_collect()
    assert sum(second.removed.values()) == dead
    after = files(folder)
    assert not {
        name for name in after if name.endswith(".__lock") or name.startswith(("gc/pins", "gc/runs", "gc/cond"))
    }
    assert COPY_JOURNAL not in after
    objects = [name for name in after if name.startswith(("chunks/", "manifests/", "snapshots/", "attributes/"))]
    assert len(objects) == sum(second.live.values())
    assert not repo.verify().problems
    assert (repo.readonly_session().root["a"][1:] == values(2)[1:]).all()
    assert sum(repo.garbage_collect(now=True).removed.values()) == 0


def test_a_bucket_is_asked_in_bulk(s3: S3) -> None:
    """1,100 chunk files are removed with two requests (DeleteObjects), and the file of the run with one."""
    bucket = s3.new_bucket()
    with FaultProxy(s3.endpoint) as proxy:
        repo = frazil.Repository.create(s3.store(bucket, "r", endpoint=proxy.url), chunk_packing="off")
        session = repo.writable_session()
        array = session.root.create_array("a", shape=(1100, 600), chunks=(1, 600), dtype="u1", codecs=[])
        array[...] = 1
        session._transaction.changes.leave_files()
        del session, array
        proxy.requests.clear()
        assert repo.garbage_collect(now=True).removed["chunks"] == 1100
        requests = [f"{request.method} {request.path.partition('?')[2]}" for request in proxy.requests]
        assert sum(line.startswith("POST delete") for line in requests) == 2 + 1
        assert not any(line.startswith("DELETE") for line in requests)
        assert len(requests) < 60, "nothing is asked for each file"
