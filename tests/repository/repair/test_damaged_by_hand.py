"""Repositories on a disk that were damaged by hand: links and folders in place of files, damaged lists of collections."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from tests.repository.maintenance.garbage import fill, orphan, values

import frazil
from frazil.errors import FormatError, StoreError
from frazil.stores import LocalStore
from frazil.stores.values import Columns, Fetched, Version
from frazil.stores.wrappers import WrappedStore


def filled(location: Path) -> frazil.Repository:
    repo = frazil.Repository.create(location, chunk_packing="off", durable=False, attributes_file_bytes=10)
    fill(repo, 3)
    with repo.transaction(message="attributes") as root:
        root["a"].attrs["long"] = "x" * 100
    return repo


def newest(location: Path, kind: str) -> Path:
    return max((location / kind).iterdir(), key=lambda path: path.stat().st_mtime_ns)


@pytest.mark.parametrize("kind", ["snapshots", "manifests", "attributes", "chunks"])
@pytest.mark.parametrize("instead", ["link", "dangling link", "folder"])
def test_something_else_in_the_place_of_a_file(tmp_path: Path, kind: str, instead: str) -> None:
    """It is reported as a separate problem, and does not end verification and repair with an error; links are never followed."""
    location = tmp_path / "r"
    repo = filled(location)
    path = newest(location, kind)
    path.rename(tmp_path / "kept")
    if instead == "folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / ("kept" if instead == "link" else "nothing"))
    repo = frazil.Repository.open(location)
    found = repo.verify()
    assert found.problems
    assert {problem.key for problem in found.problems} & {f"{kind}/{path.name}", None} or kind == "chunks"
    if kind in ("snapshots", "manifests"):  # which collections read
        with pytest.raises(FormatError) as caught:
            repo.garbage_collect(now=True)
        assert caught.value.hint
    repo.repair(older=True, accept_loss=True, tips=True, history=True)
    assert repo.verify(decode=True, history=False).ok
    assert path.is_symlink() or path.is_dir()


def test_a_link_in_the_place_of_the_first_snapshot(tmp_path: Path) -> None:
    """Whose id is requested before it is read."""
    repo = filled(tmp_path / "r")
    first = list(repo.history())[-1].id
    path = tmp_path / "r" / "snapshots" / first
    path.unlink()
    path.symlink_to(tmp_path / "nothing")
    assert f"snapshots/{first}" in {problem.key for problem in frazil.Repository.open(tmp_path / "r").verify().problems}
    assert frazil.Repository.open(tmp_path / "r").repair(history=True).ok


def test_hints_of_collections(tmp_path: Path) -> None:
    """The error of a damaged list describes the solution: it is removed, and its entries are condemned again."""
    repo = filled(tmp_path / "r")
    orphan(repo)
    repo.garbage_collect()
    path = newest(tmp_path / "r", "gc/condemned")
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(FormatError) as caught:
        repo.garbage_collect()
    assert caught.value.key == f"gc/condemned/{path.name}"
    assert "remove this file" in (caught.value.hint or "")
    path.unlink()
    assert repo.garbage_collect().condemned["chunks"] == 2
    assert np.array_equal(repo.readonly_session().root["a"][:], values(2))
    with repo.transaction(message="which no collection has seen") as root:
        root["a"][0] = 1
    (snapshot,) = [one for one in (tmp_path / "r" / "snapshots").iterdir() if one.name == repo.lookup("main")]
    snapshot.write_bytes(bytes(100))
    for dry_run in (True, False):
        with pytest.raises(FormatError) as caught:
            frazil.Repository.open(tmp_path / "r").garbage_collect(now=True, dry_run=dry_run)
        assert "verify" in (caught.value.hint or "")


MAKERS: dict[str, Callable[[Path], object]] = {
    "link": lambda path: path.symlink_to("../../snapshots"),
    "dangling link": lambda path: path.symlink_to("nothing"),
    "folder": Path.mkdir,
    "pipe": os.mkfifo,
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_something_else_in_the_place_of_the_next_file_of_a_branch(
    tmp_path: Path, make: Callable[[Path], object]
) -> None:
    """No commit can take that number. A verification reports it, every change of the branch is refused and names the file, and nothing is lost once it is moved
    away."""
    location = tmp_path / "r"
    repo = filled(location)
    orphan(repo)
    session = repo.writable_session()
    session.root["a"][:] = values(9)
    files = repo._files
    path = location / files.tip_key(files.tip("main")._replace(sequence=files.tip("main").sequence + 1))
    make(path)
    key = path.relative_to(location).as_posix()
    repo = frazil.Repository.open(location)
    for found in (repo.verify(), repo.verify(history=False)):
        assert [(problem.kind, problem.ref, problem.key) for problem in found.problems] == [("ref", "branch main", key)]
    there = set(location.rglob("*"))
    for change in (
        lambda: repo.garbage_collect(now=True),
        lambda: repo.reset_branch("main", list(repo.history())[1].id),
        lambda: repo.run(lambda root: root.attrs.update(x=1), message="x"),
        lambda: session.commit("late"),
    ):
        with pytest.raises(FormatError) as caught:
            change()
        assert caught.value.key == key
        assert "move it away" in (caught.value.hint or "")
        assert set(location.rglob("*")) >= there
    assert not repo.repair(tips=True).ok
    path.rename(tmp_path / "evidence")
    session.commit("late")
    assert repo.verify(decode=True).ok
    repo.garbage_collect(now=True)
    assert np.array_equal(frazil.Repository.open(location).readonly_session().root["a"][:], values(9))


def put_something_else(path: Path) -> None:
    """A folder in the place of a file, and the other way round."""
    if path.suffix == ".json":
        path.mkdir()
    else:
        path.touch()


INSTEAD: dict[str, Callable[[Path], object]] = {
    "link": lambda path: path.symlink_to(
        next(one for one in path.parents if (one / "elsewhere").exists()) / "elsewhere"
    ),
    "dangling link": lambda path: path.symlink_to("nothing"),
    "folder or file": put_something_else,
    "pipe": os.mkfifo,
}


@pytest.mark.parametrize("put", INSTEAD.values(), ids=INSTEAD)
@pytest.mark.parametrize("ref", ["branch.dev", "branch.dev/ZZZZZZZZ.json", "tag.v1", "tag.v1/ref.json"])
def test_something_else_in_the_place_of_a_branch_or_tag(
    tmp_path: Path, ref: str, put: Callable[[Path], object]
) -> None:
    """A store does not list it. The branch or tag is named as damaged all the same, and no collection removes what it leads to."""
    location = tmp_path / "r"
    repo = filled(location)
    second = list(repo.history())[1].id
    repo.create_branch("dev", second) if ref.startswith("branch") else repo.create_tag("v1", second)
    repo.reset_branch("main", list(repo.history())[3].id)
    path = location / "refs" / ref
    path.rename(tmp_path / "elsewhere")
    put(path)
    there = {path for path in location.rglob("*") if not path.is_dir()}
    repo = frazil.Repository.open(location)
    name = ref.split("/", maxsplit=1)[0].replace(".", " ")
    assert repo.branches + repo.tags == (["dev", "main"] if "branch" in ref else ["main", "v1"])
    assert [(problem.kind, problem.ref) for problem in repo.verify().problems] == [("ref", name)]
    for look in (
        lambda: repo.garbage_collect(now=True),
        lambda: repo.garbage_collect(dry_run=True),
        lambda: repo.expire(older_than=timedelta(0)),
        lambda: repo.readonly_session("dev") if "branch" in ref else repo.readonly_session(tag="v1"),
    ):
        with pytest.raises(FormatError) as caught:
            look()
        assert (caught.value.key or "").startswith(f"refs/{ref.split('/', maxsplit=1)[0]}")
    done = repo.repair(tips=True, history=True, accept_loss=True)
    assert [entry.ref for entry in done.lost] == [name]
    assert {path for path in location.rglob("*") if not path.is_dir()} == there
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink()
    (tmp_path / "elsewhere").rename(path)
    repo = frazil.Repository.open(location)
    assert repo.verify(decode=True).ok
    assert repo.lookup(name.split()[1]) == second


@pytest.mark.parametrize("put", INSTEAD.values(), ids=INSTEAD)
@pytest.mark.parametrize("name", ["refs", "refs/branch.main", "refs/branch.main/ZZZZZZZZ.json"])
def test_something_else_in_the_place_of_main(tmp_path: Path, name: str, put: Callable[[Path], object]) -> None:
    """The error says what is there, not that there is no repository; and no new one is created."""
    location = tmp_path / "r"
    frazil.Repository.create(location, durable=False)
    path = location / name
    path.rename(tmp_path / "elsewhere")
    put(path)
    for look in (frazil.Repository.open, frazil.Repository.exists, frazil.Repository.create):
        with pytest.raises(FormatError, match="is replaced by a link") as caught:
            look(location)
        assert (caught.value.key or "").startswith("refs")
        assert caught.value.hint


@pytest.mark.parametrize("consent", ["tips", "older", "accept_loss"])
def test_a_repair_with_a_consent_again(tmp_path: Path, consent: str) -> None:
    """It finds nothing to do: what it kept of damaged tips stays where it is, and a tag with the snapshot of a branch has its own branch from the beginning."""
    repo = filled(tmp_path / "r")
    first = repo.lookup("main")
    repo.create_branch("dev", "main")
    with repo.transaction("dev", message="later") as root:
        root["a"][:] = values(7)
    repo.create_tag("v1", "dev")
    newest(tmp_path / "r", "chunks").unlink()
    dry = repo.repair(**{consent: True}, dry_run=True)  # type: ignore[arg-type]
    done = frazil.Repository.open(tmp_path / "r").repair(**{consent: True})  # type: ignore[arg-type]
    if consent == "tips":
        assert (done.moved, done.created) == ({"dev": first}, {"dev-damaged": repo.lookup_tag("v1")})
    else:
        assert list(done.commits) == ["dev"]
        assert done.created == {"v1-repaired": done.commits["dev"]}
    assert dry.created.keys() == done.created.keys()
    again = frazil.Repository.open(tmp_path / "r").repair(**{consent: True})  # type: ignore[arg-type]
    assert not (again.commits or again.created or again.moved)
    assert list(map(str, again.before)) == list(map(str, done.after))


def test_chunks_that_cannot_be_decoded_are_named_once(tmp_path: Path) -> None:
    """However many branches and tags have them, as a verification names them."""
    repo = frazil.Repository.create(tmp_path / "r", durable=False, chunk_packing="off")
    with repo.transaction(message="0") as root:
        root.create_array("z", data=np.random.default_rng(0).integers(0, 9999, (4, 1024)), chunks=(1, 1024))
    repo.create_branch("dev", "main")
    repo.create_tag("v1", "main")
    path = newest(tmp_path / "r", "chunks")
    path.write_bytes(bytes(path.stat().st_size))
    found = [str(problem) for problem in repo.verify(decode=True).problems]
    done = repo.repair(decode=True, dry_run=True)
    assert list(map(str, done.before)) == list(map(str, done.after)) == found
    assert len(found) == 1


def test_a_damaged_chunk_in_a_manifest_that_older_snapshots_have(tmp_path: Path) -> None:
    """Each repair replaced it by itself, from an older snapshot with the same bytes, and left it damaged."""
    repo = frazil.Repository.create(tmp_path / "r", durable=False)
    with repo.transaction(message="0") as root:
        root.create_array("z", data=np.arange(1, 9), chunks=(4,), codecs=["bytes", "crc32c"], fill_value=5)
    with repo.transaction(message="1") as root:
        root["z"][0] = 1
    value = np.arange(5, 9).tobytes()
    for path in (tmp_path / "r/manifests").iterdir():
        assert value in path.read_bytes()
        path.write_bytes(path.read_bytes().replace(value, b"?" + value[1:]))
    repo = frazil.Repository.open(tmp_path / "r")
    done = repo.repair(decode=True, older=True, accept_loss=True)
    assert [entry.chunks.tolist() for entry in done.lost if entry.chunks is not None] == [[[1]]]
    assert repo.readonly_session().root["z"][...].tolist() == [1, 2, 3, 4, 5, 5, 5, 5]
    assert not repo.repair(decode=True, older=True, accept_loss=True).commits


def test_a_branch_that_a_repair_made_is_repaired_too(tmp_path: Path) -> None:
    """The manifest of a tag is lost, and a chunk that an older snapshot has in its place is damaged: a second repair was necessary."""
    repo = frazil.Repository.create(tmp_path / "r", durable=False, chunk_packing="off")
    with repo.transaction(message="0") as root:
        root.create_array("a", data=values(1), chunks=(1, 256), codecs=["bytes", "crc32c"])
    damaged = newest(tmp_path / "r", "chunks")
    with repo.transaction(message="1") as root:
        root["a"][:] = values(2)
    repo.create_tag("v1", "main")
    repo.reset_branch("main", list(repo.history())[-1].id)
    newest(tmp_path / "r", "manifests").unlink()
    damaged.write_bytes(bytes(damaged.stat().st_size))
    done = frazil.Repository.open(tmp_path / "r").repair(decode=True, older=True, accept_loss=True)
    assert {*done.created, *done.commits} == {"v1-repaired"}
    found = frazil.Repository.open(tmp_path / "r").readonly_session("v1-repaired").root["a"][:]
    assert ((found == values(1)).all(axis=1) ^ (found == 0).all(axis=1)).all()
    assert (found == 0).all(axis=1).sum() == 1
    again = frazil.Repository.open(tmp_path / "r").repair(decode=True, older=True, accept_loss=True)
    assert not (again.commits or again.created)


class OddDisk(WrappedStore):
    """Its reads of snapshots end in a system error that may mean anything."""

    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Sequence[Version | None] | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        if any(name.startswith("snapshots/") for name in names):
            raise StoreError("odd", errno=errno.EINVAL, key=names[0])
        return super().fetch(names, spans, expect=expect, continue_from=continue_from, single_read=single_read)


def test_an_error_of_the_disk_is_no_damage(tmp_path: Path) -> None:
    """A failed read decides nothing."""
    filled(tmp_path / "r")
    repo = frazil.Repository.open(OddDisk(LocalStore(tmp_path / "r")))
    for look in (repo.verify, repo.repair, lambda: repo.garbage_collect(now=True)):
        with pytest.raises(StoreError, match="odd"):
            look()


def test_a_branch_file_that_deletes_main(tmp_path: Path) -> None:
    """No operation writes that. It verified as sound, and a collection removed all that main alone leads to."""
    repo = filled(tmp_path)
    tip = repo.lookup("main")
    files = sorted(path for path in (tmp_path / "refs/branch.main").iterdir() if path.suffix == ".json")
    files[0].write_text('{"deleted":true}')
    repo = frazil.Repository.open(tmp_path)
    with pytest.raises(FormatError, match="'main' cannot be deleted"):
        repo.readonly_session("main")
    assert [(one.kind, one.ref) for one in repo.verify().problems] == [("ref", "branch main")]
    before = {path: path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()}
    for remove in (lambda: repo.garbage_collect(now=True), lambda: repo.expire(older_than=timedelta(0))):
        with pytest.raises(FormatError, match="'main' cannot be deleted"):
            remove()
    assert {path: path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()} == before
    files[0].write_text(f'{{"snapshot":"{tip}"}}')
    assert frazil.Repository.open(tmp_path).lookup("main") == tip
    files[0].write_text('{"deleted":true}')
    assert frazil.Repository.open(tmp_path).repair(tips=True).ok
    assert frazil.Repository.open(tmp_path).verify().ok


@pytest.mark.parametrize(
    ("ref", "instead"),
    [
        ("branch.dev", "BRANCH.DEV"),
        ("branch.dev", "Branch.dev"),
        ("branch.dev/ZZZZZZZY.json", "branch.dev/zzzzzzzy.json"),
        ("branch.dev/ZZZZZZZY.json", "branch.dev/ZZZZZZZY.JSON"),
        ("tag.v1", "TAG.V1"),
        ("tag.v1/ref.json", "tag.v1/REF.JSON"),
    ],
)
def test_a_branch_or_tag_in_other_letters(tmp_path: Path, ref: str, instead: str) -> None:
    """As after a copy over a file system that does not keep the case: it is not read, so a verification reports it, and no collection removes what it leads
    to."""
    location = tmp_path / "r"
    repo = filled(location)
    former, tip = list(repo.history())[1].id, repo.lookup("main")
    if "tag" in ref:
        repo.create_tag("v1", "main")
    else:
        repo.create_branch("dev", former)
        repo.reset_branch("dev", "main")
        if "/" not in ref:  # else the older file is still read
            (location / "refs/branch.dev/ZZZZZZZZ.json").unlink()
    repo.reset_branch("main", list(repo.history())[3].id)
    kept = location / "refs" / ref
    kept.rename(location / "refs" / instead)
    repo = frazil.Repository.open(location)
    there = {path for path in location.rglob("*") if not path.is_dir()}
    for found in (repo.verify().problems, repo.verify(history=False).problems, repo.repair(tips=True).after):
        assert [(problem.kind, problem.key) for problem in found] == [
            ("ref", f"refs/{instead}" + "/" * ("/" not in ref))
        ]
        assert "rename" in found[0].text
    for remove in (
        lambda: repo.garbage_collect(now=True),
        lambda: repo.garbage_collect(dry_run=True),
        lambda: repo.expire(older_than=timedelta(0)),
    ):
        with pytest.raises(FormatError) as caught:
            remove()
        assert (caught.value.key or "").startswith(f"refs/{instead}")
    assert {path for path in location.rglob("*") if not path.is_dir()} == there
    (location / "refs" / instead).rename(kept)
    repo = frazil.Repository.open(location)
    repo.garbage_collect(now=True)
    assert np.array_equal(repo.readonly_session(snapshot=tip).root["a"][:], values(2))


def test_other_names_among_branches_and_tags(tmp_path: Path) -> None:
    """They are reported, and prevent nothing; hidden files are not."""
    location = tmp_path / "r"
    repo = filled(location)
    for name in (
        "notes.txt",
        "other/ref.json",
        "branch.none/.DS_Store",
        ".DS_Store",
        "branch.main/README",
        "branch.main/metadata.json",
    ):
        path = location / "refs" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"?")
    found = repo.verify().problems
    assert {(problem.kind, problem.key) for problem in found} == {
        ("ref", f"refs/{name}") for name in ("notes.txt", "other/", "branch.none/")
    }
    repo.garbage_collect(now=True)
    assert repo.branches == ["main"]


@pytest.mark.parametrize("put", list(INSTEAD.values())[:3], ids=["link", "dangling link", "file"])
@pytest.mark.parametrize(
    "folder", ["gc", "gc/expired", "gc/condemned", "gc/pins", "gc/expired/ID", "gc/condemned/ID", "chunks", "manifests"]
)
def test_something_else_in_the_place_of_a_folder(tmp_path: Path, folder: str, put: Callable[[Path], object]) -> None:
    """A store lists nothing there, as if no snapshot had expired. It is reported, and nothing is changed."""
    location = tmp_path / "r"
    repo = filled(location)
    repo.expire(older_than=timedelta(0), keep_last=2)
    orphan(repo)
    repo.garbage_collect()
    (location / "gc/pins").mkdir(exist_ok=True)
    path = newest(location, folder[:-3]) if folder.endswith("ID") else location / folder
    path.rename(tmp_path / "elsewhere")
    path.mkdir() if folder.endswith("ID") and put is put_something_else else put(path)
    repo = frazil.Repository.open(location)
    there = {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*") if not path.is_dir()}
    key = path.relative_to(location).as_posix()
    changes = [
        lambda: repo.garbage_collect(now=True),
        repo.garbage_collect,
        lambda: repo.garbage_collect(dry_run=True),
    ]
    if folder.startswith("gc"):
        found = repo.verify().problems
        assert ("collection", key) in {(problem.kind, problem.key) for problem in found}
        assert not repo.repair(older=True, accept_loss=True, tips=True).ok
        assert repo.verify(history=False).problems
    else:
        changes += [repo.verify, lambda: repo.repair(accept_loss=True)]
    if "expired" in folder or folder == "gc":
        changes += [
            lambda: repo.expire(older_than=timedelta(0)),
            lambda: list(repo.history()),
        ]
        assert any(key in entry.text for entry in repo.repair(history=True).lost)
    for change in changes:
        with pytest.raises(FormatError) as caught:
            change()
        assert caught.value.key == key
        assert caught.value.hint
    assert {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*") if not path.is_dir()} == there
    path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    (tmp_path / "elsewhere").rename(path)
    repo = frazil.Repository.open(location)
    assert repo.verify(decode=True).ok
    assert len(list(repo.history())) == 2


def test_a_damaged_record_of_an_expiry(tmp_path: Path) -> None:
    """The rest is repaired, and the report names the record."""
    repo = filled(tmp_path / "r")
    repo.expire(older_than=timedelta(0), keep_last=2)
    record = newest(tmp_path / "r", "gc/expired")
    value = record.read_bytes()
    record.write_bytes(value[:-1])
    newest(tmp_path / "r", "attributes").unlink()
    done = frazil.Repository.open(tmp_path / "r").repair(history=True, accept_loss=True)
    assert list(done.commits) == ["main"]
    assert [f"gc/expired/{record.name}" in entry.text for entry in done.lost if entry.kind == "history"] == [True]
    assert {problem.kind for problem in done.after} >= {"expiry"}
    record.write_bytes(value)
    assert frazil.Repository.open(tmp_path / "r").repair(history=True).ok


def test_hints_name_the_options_that_repair_more(tmp_path: Path) -> None:
    location = tmp_path / "r"
    repo = filled(location)
    newest(location, "chunks").unlink()
    assert "older=True" in str(repo.repair(dry_run=True))
    assert "accept_loss=True" in str(repo.repair(older=True)) or repo.verify(history=False).ok
    assert "older=True" not in str(repo.repair(older=True))
    assert any("history=True" in hint for hint in repo.repair(accept_loss=True).hints)
    assert repo.repair(history=True).hints == ()
