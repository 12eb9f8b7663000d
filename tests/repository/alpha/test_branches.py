"""Branch and tag files: the next file, creating, resetting, deleting, listing, names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.formats.archives import repository
from tests.repository.archived_repositories import (
    Without,
    archive,
    created,
    info,
    of_text,
    put_file,
    put_snapshot,
    snapshot,
    some_id,
)
from tests.servers.buckets import S3

import frazil
from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    FormatError,
    InvalidInputError,
    NotFoundError,
    ReadOnlyError,
    StoreError,
)
from frazil.formats.alpha.refs import LAST_SEQUENCE, branch_key
from frazil.formats.ids import encode_id
from frazil.repository.alpha.branches import (
    check_commits,
    create_branch,
    create_repository,
    delete_branch,
    exists,
    list_branches,
    open_tip,
    put_next,
    read_first,
    read_tip,
    reset_branch,
    tip_after,
)
from frazil.repository.alpha.file_cache import Files
from frazil.repository.alpha.tags import create_tag, list_tags, read_tag, read_tags
from frazil.repository.format import COMMITTED, MAIN, TAKEN, Tip
from frazil.stores import LocalStore, MemoryStore, read_only
from frazil.stores.wrappers import WrappedStore
from frazil.testing.buffered_store import BufferedStore

# --- the archives ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "a/b/"])
def test_branches_and_tags_of_the_first_archive(prefix: str) -> None:
    files = archive("icechunk-alpha-repo", prefix)
    assert exists(files)
    assert list_branches(files) == ["main", "my-branch"]
    assert list_tags(files) == ["it also works!", "it works!"]
    assert read_tip(files, "main") == Tip("main", 3, of_text("RZD9SW6JJZHKA94VY1DG"))
    assert read_tip(files, "my-branch") == Tip("my-branch", 2, of_text("0XEZMR4J7SJ5QBWAYBE0"))
    assert read_tag(files, "it works!") == of_text("QVY2RGJBE9DX8E525CA0")
    assert read_tag(files, "it also works!") == of_text("0XEZMR4J7SJ5QBWAYBE0")
    assert read_tags(files) == {name: read_tag(files, name) for name in list_tags(files)}
    assert read_tag(files, "it") is None
    assert read_tip(files, "it") is None
    first = read_first(files, "main")
    assert first is not None
    assert first.snapshot == of_text("WT2Z2GQ09G0RTAEQ3D70")
    assert read_first(files, "it") is None


def test_branches_and_tags_of_the_varied_archive() -> None:
    files = archive("icechunk-alpha-varied")
    folders = {key.split("/")[1] for key in repository("icechunk-alpha-varied") if key.startswith("refs/")}
    assert {f"branch.{name}" for name in list_branches(files)} == {one for one in folders if one.startswith("branch.")}
    assert len(list_tags(files)) == len([one for one in folders if one.startswith("tag.")]) == 2
    for name in list_branches(files):
        assert files.has_snapshot(open_tip(files, name).snapshot)


# --- two spellings -----------------------------------------------------------------------------------------------------------------------


def test_both_spellings_are_read_and_the_one_that_is_there_is_written() -> None:
    files, first = created(prefix="p/")
    store = files.store
    text = f'{{"snapshot":"{encode_id(first.snapshot)}"}}'.encode()
    store.set("p/refs/branch.a*b/ZZZZZZZX.json", text)
    store.set("p/refs/tag.t~é/ref.json", text)
    assert list_branches(files) == ["a*b", MAIN]
    assert list_tags(files) == ["t~é"]
    assert read_tag(files, "t~é") == first.snapshot
    assert read_tags(files) == {"t~é": first.snapshot}
    tip = open_tip(files, "a*b")
    assert (tip.sequence, tip.snapshot) == (2, first.snapshot)
    assert put_next(files, tip, first.snapshot)[0] == COMMITTED
    assert store.exists("p/refs/branch.a*b/ZZZZZZZW.json")
    assert not store.list_prefix("p/refs/branch.a%2Ab/")
    assert open_tip(files, "a*b", tip).sequence == 3
    assert open_tip(files, "a*b", open_tip(files, "a*b", tip)).sequence == 3
    with pytest.raises(AlreadyExistsError):
        create_branch(files, "a*b", first.snapshot)
    with pytest.raises(AlreadyExistsError):
        create_tag(files, "t~é", first.snapshot)
    deleted = delete_branch(files, "a*b")
    assert deleted.sequence == 4
    assert create_branch(files, "a*b", first.snapshot).sequence == 5
    assert store.exists("p/refs/branch.a*b/ZZZZZZZT.json")


def test_a_folder_is_that_of_one_name(tmp_path: Path) -> None:
    """The branch "a*b" is not also found as "a%2Ab", the name of its folder on a local disk."""
    files, first = created(LocalStore(tmp_path))
    create_branch(files, "a*b", first.snapshot)
    assert files.store.exists("refs/branch.a%2Ab/ZZZZZZZZ.json")
    assert read_tip(files, "a%2Ab") is None
    create_branch(files, "a%2Ab", first.snapshot)
    assert list_branches(files) == ["a%2Ab", "a*b", MAIN]
    delete_branch(files, "a%2Ab")
    assert list_branches(files) == ["a*b", MAIN]


def test_of_two_folders_the_higher_number_counts() -> None:
    files, first = created()
    text = f'{{"snapshot":"{encode_id(first.snapshot)}"}}'.encode()
    files.store.set("refs/branch.a*b/ZZZZZZZX.json", text)
    files.store.set("refs/branch.a%2Ab/ZZZZZZZZ.json", text)
    assert open_tip(files, "a*b").sequence == 2
    files.store.set("refs/branch.a%2Ab/ZZZZZZZW.json", text)
    assert open_tip(files, "a*b") == Tip("a*b", 3, first.snapshot, folder="refs/branch.a%2Ab/")


@pytest.mark.rule("I185", "I205")
def test_names_are_encoded_on_a_local_disk_alone(tmp_path: Path) -> None:
    """As in the alpha library: literal in object stores."""
    for store, folder in (
        (MemoryStore(), "a*b é"),
        (LocalStore(tmp_path), "a%2Ab %C3%A9"),
        (BufferedStore(LocalStore(tmp_path / "w")), "a%2Ab %C3%A9"),
    ):
        files, first = created(store)
        create_branch(files, "a*b é", first.snapshot)
        create_tag(files, "a*b é", first.snapshot)
        assert {key.split("/")[1] for key in store.list_prefix("refs/")} == {
            f"branch.{folder}",
            "branch.main",
            f"tag.{folder}",
        }
        assert list_branches(files) == ["a*b é", MAIN]
        assert list_tags(files) == ["a*b é"]
        assert open_tip(files, "a*b é").folder == ""
        assert put_next(files, open_tip(files, "a*b é"), first.snapshot)[0] == COMMITTED
        assert store.exists(f"refs/branch.{folder}/ZZZZZZZY.json")


@pytest.mark.rule("I185", "I205")
def test_names_are_literal_in_a_bucket(s3: S3) -> None:
    store = s3.store()
    files, first = created(store)
    names = ["a b", "a#b", "a%41", "a*b", "a?b", "a~b", "é"]
    for name in names:
        create_branch(files, name, first.snapshot)
        create_tag(files, name, first.snapshot)
        assert put_next(files, open_tip(files, name), first.snapshot)[0] == COMMITTED
        assert store.exists(f"refs/branch.{name}/ZZZZZZZY.json")
        assert store.exists(f"refs/tag.{name}/ref.json")
    assert list_branches(files) == sorted([*names, MAIN])
    assert list_tags(files) == names


def test_an_encoding_of_another_name_is_encoded_again() -> None:
    """On a local disk, a literal folder "branch.a%2Ab" would be taken for that of "a*b". "a%41" is the encoding of no name."""
    files, first = created()
    for name, folder in (("a%2Ab", "a%252Ab"), ("a%41", "a%41"), ("100%", "100%")):
        create_branch(files, name, first.snapshot)
        assert files.store.exists(f"refs/branch.{folder}/ZZZZZZZZ.json")
        assert open_tip(files, name).snapshot == first.snapshot
    assert list_branches(files) == ["100%", "a%2Ab", "a%41", MAIN]


# --- the next file -----------------------------------------------------------------------------------------------------------------------


def test_each_number_is_given_once() -> None:
    files, first = created()
    mine, other = some_id(), some_id()
    outcome, tip = put_next(files, first, mine)
    assert (outcome, tip) == (COMMITTED, Tip(MAIN, 1, mine))
    assert put_next(files, first, other) == (TAKEN, Tip(MAIN, 1, mine))
    assert put_next(files, first, mine) == (COMMITTED, Tip(MAIN, 1, mine))  # its answer was lost elsewhere
    assert open_tip(files, MAIN) == Tip(MAIN, 1, mine)
    assert files.store.get("refs/branch.main/ZZZZZZZY.json") == f'{{"snapshot":"{encode_id(mine)}"}}'.encode()


def test_the_last_file_is_the_last() -> None:
    files, first = created()
    put_file(files, "full", LAST_SEQUENCE - 1)
    tip = open_tip(files, "full")
    outcome, last = put_next(files, tip, first.snapshot)
    assert outcome == COMMITTED
    assert last is not None
    assert files.store.exists("refs/branch.full/00000000.json")
    assert open_tip(files, "full", tip) == last == open_tip(files, "full") == open_tip(files, "full", last)
    with pytest.raises(InvalidInputError, match="is full"):
        put_next(files, last, some_id())
    with pytest.raises(InvalidInputError, match="is full"):
        delete_branch(files, "full")


@pytest.mark.rule("I45")
@pytest.mark.parametrize(
    "write",
    [
        lambda files, _: check_commits(files),
        lambda files, tip: put_next(files, tip, some_id()),
        lambda files, tip: create_repository(Files(files.store, "new/"), some_id(), snapshot(info(1))),
        lambda files, tip: create_branch(files, "b", tip.snapshot),
        lambda files, tip: reset_branch(files, MAIN, tip.snapshot),
        lambda files, tip: delete_branch(files, "dev"),
        lambda files, tip: create_tag(files, "x", tip.snapshot),
    ],
)
def test_stores_that_commits_are_not_safe_in(write: Callable[[Files, Tip], object]) -> None:
    files, first = created()
    create_branch(files, "dev", first.snapshot)
    keys = files.store.list()
    for store, error in (
        (Without(files.store, conditional=False), StoreError),
        (Without(files.store, conditional=False, guarded=True), StoreError),
        (read_only(files.store), ReadOnlyError),
    ):
        there = Files(store)
        assert open_tip(there, MAIN) == first
        with pytest.raises(error) as caught:
            write(there, first)
        assert caught.value.hint
    assert files.store.list() == keys


# --- repositories and branches -----------------------------------------------------------------------------------------------------------


def test_a_repository_without_its_first_branch_file_is_one(tmp_path: Path) -> None:
    files = Files(LocalStore(tmp_path / "sea.repo"))
    first = snapshot(info(1))
    put_next(files, create_repository(files, first.metadata.id, first), first.metadata.id)
    files.store.erase("refs/branch.main/ZZZZZZZZ.json")
    assert exists(files)
    files.store.erase("refs/branch.main/ZZZZZZZY.json")
    assert not exists(files)


def test_a_repository_is_created_once(tmp_path: Path) -> None:
    files = Files(LocalStore(tmp_path / "sea.repo", sync=True))
    assert not exists(files)
    first = snapshot(info(1))
    tip = create_repository(files, first.metadata.id, first)
    assert exists(files)
    assert tip == Tip(MAIN, 0, first.metadata.id) == open_tip(files, MAIN)
    assert sorted(files.store.list()) == ["refs/branch.main/ZZZZZZZZ.json", f"snapshots/{encode_id(tip.snapshot)}"]
    with pytest.raises(AlreadyExistsError):
        create_repository(files, some_id(), first)
    assert len(files.store.list()) == 2
    create_repository(Files(files.store, "inner/"), some_id(), first)


@pytest.mark.parametrize("lost", ["manifests", "chunks"])
def test_a_repository_without_refs_is_not_created_again(lost: str, tmp_path: Path) -> None:
    """A collection in the new one would remove them."""
    (tmp_path / lost).mkdir()
    (tmp_path / lost / encode_id(some_id())).write_bytes(b"old")
    with pytest.raises(AlreadyExistsError, match="restore its refs/"):
        frazil.Repository.create(tmp_path)
    with pytest.raises(NotFoundError, match="restore its refs/"):
        frazil.Repository.open(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [lost]


def test_branches_are_created_reset_and_deleted() -> None:
    files, first = created()
    second, third = (put_snapshot(files, number, [1]) for number in (2, 3))
    assert create_branch(files, "dev", second) == Tip("dev", 0, second)
    with pytest.raises(AlreadyExistsError):
        create_branch(files, "dev", second)
    with pytest.raises(AlreadyExistsError):
        create_branch(files, MAIN, second)
    with pytest.raises(NotFoundError):
        create_branch(files, "other", some_id())
    assert list_branches(files) == ["dev", MAIN]
    assert reset_branch(files, "dev", third, second) == Tip("dev", 1, third)
    with pytest.raises(ConflictError) as caught:
        reset_branch(files, "dev", first.snapshot, second)
    assert encode_id(third) in str(caught.value)
    with pytest.raises(NotFoundError):
        reset_branch(files, "dev", some_id(), third)
    with pytest.raises(NotFoundError):
        reset_branch(files, "devil", third)
    assert reset_branch(files, "dev", third) == Tip("dev", 1, third)  # nothing to do
    assert reset_branch(files, "dev", first.snapshot) == Tip("dev", 2, first.snapshot)
    with pytest.raises(ConflictError):
        delete_branch(files, "dev", third)
    gone = delete_branch(files, "dev", first.snapshot)
    assert gone == Tip("dev", 3, b"", deleted=True) == read_tip(files, "dev")
    assert files.store.get(branch_key("dev", 3)) == b'{"deleted":true}', (
        "nothing to go on from for who does not know deleted branches"
    )
    assert list_branches(files) == [MAIN]
    for attempt in (delete_branch, open_tip):
        with pytest.raises(NotFoundError, match="deleted"):
            attempt(files, "dev")
    with pytest.raises(NotFoundError):
        reset_branch(files, "dev", third)
    # a session from before the deletion has no number to commit under
    assert put_next(files, Tip("dev", 2, first.snapshot), second) == (TAKEN, gone)
    assert create_branch(files, "dev", second) == Tip("dev", 4, second) == open_tip(files, "dev", gone)
    assert list_branches(files) == ["dev", MAIN]


def test_the_main_branch_cannot_be_deleted() -> None:
    files, _ = created()
    with pytest.raises(InvalidInputError):
        delete_branch(files, MAIN)


def test_a_deletion_without_a_snapshot_is_read() -> None:
    files, first = created()
    files.store.set(branch_key("b", 4), b'{"deleted":true}')
    assert read_tip(files, "b") == Tip("b", 4, b"", deleted=True)
    assert list_branches(files) == [MAIN]
    assert create_branch(files, "b", first.snapshot).sequence == 5


def test_a_branch_moves_behind_others_where_it_may() -> None:
    """Another writer commits between the read of the tip and the next file."""
    files, first = created()
    second, third = (put_snapshot(files, number, [1]) for number in (2, 3))
    tip = create_branch(files, "dev", first.snapshot)

    class Overtaken(WrappedStore):
        left = 3

        def put_many(self, names, pieces, expect):  # type: ignore[no-untyped-def]
            if self.left:
                self.left -= 1
                put_next(files, open_tip(files, "dev"), some_id())
            return super().put_many(names, pieces, expect)

    assert reset_branch(Files(Overtaken(files.store)), "dev", second).sequence == tip.sequence + 4
    assert delete_branch(Files(Overtaken(files.store)), "dev").sequence == tip.sequence + 8
    create_branch(files, "dev", third)
    with pytest.raises(ConflictError):
        reset_branch(Files(Overtaken(files.store)), "dev", second, third)
    assert open_tip(files, "dev").snapshot not in {second, third}


@pytest.mark.parametrize("name", ["a b", "it works!", "é", "a%2Ab", "[x]", "100%", "feature.1", "~", "x" * 240])
def test_names(name: str, tmp_path: Path) -> None:
    for store in (MemoryStore(), LocalStore(tmp_path)):
        files, first = created(store)
        create_branch(files, name, first.snapshot)
        create_tag(files, name, first.snapshot)
        assert list_branches(files) == sorted([MAIN, name])
        assert list_tags(files) == [name]
        assert open_tip(files, name).snapshot == read_tag(files, name) == first.snapshot


@pytest.mark.parametrize("name", ["", "a/b", "../x", "a\\b", "..", ".", "a\nb", "\0", "\ud800", "x" * 256, 7])
def test_names_that_are_refused(name: str) -> None:
    files, first = created()
    with pytest.raises(InvalidInputError):
        create_branch(files, name, first.snapshot)
    with pytest.raises(InvalidInputError):
        create_tag(files, name, first.snapshot)
    assert len(files.store.list()) == 2


@pytest.mark.rule("I144", "I345")
def test_tags_are_never_moved() -> None:
    files, first = created()
    second = put_snapshot(files, 2, [1])
    create_tag(files, "v1", first.snapshot)
    for target in (first.snapshot, second):
        with pytest.raises(AlreadyExistsError):
            create_tag(files, "v1", target)
    with pytest.raises(NotFoundError):
        create_tag(files, "v2", some_id())
    assert read_tag(files, "v1") == first.snapshot
    files.store.set("refs/tag.gone/ref.json", b'{"deleted":true}')
    with pytest.raises(FormatError):
        read_tag(files, "gone")


@pytest.mark.rule("I120")
def test_tags_that_cannot_be_read_are_errors_among_the_others(tmp_path: Path) -> None:
    files, first = created(LocalStore(tmp_path))
    for name in ("a", "b", "c", "d"):
        create_tag(files, name, first.snapshot)
    (tmp_path / "refs/tag.b/ref.json").write_text("no JSON")
    assert [name for name, found in read_tags(files).items() if isinstance(found, FormatError)] == ["b"]
    (tmp_path / "refs/tag.c/ref.json").unlink()
    for block in (
        Path.mkdir,
        lambda file: file.symlink_to(tmp_path / "refs/tag.a/ref.json"),
    ):  # of a link nothing is read in a batch
        block(tmp_path / "refs/tag.c/ref.json")
        found = read_tags(files)
        assert [name for name in found if isinstance(found[name], FormatError)] == ["b", "c"]
        assert found["a"] == found["d"] == first.snapshot
        assert list_tags(files) == ["a", "b", "c", "d"]
        if (tmp_path / "refs/tag.c/ref.json").is_dir():
            (tmp_path / "refs/tag.c/ref.json").rmdir()


def test_foreign_folders_and_files_in_refs() -> None:
    files, _ = created()
    for key in ("refs/config", "refs/branch./ZZZZZZZZ.json", "refs/tag.empty/x.json", "refs/branch.none/ref.json", "refs/other/a", "refs/branch.%41/x",
                f"refs/branch.{'é' * 90}/ZZZZZZZZ.json", "transactions/x", "config.yaml"):  # fmt: skip
        files.store.set(key, b"x")
    assert list_branches(files) == [MAIN]
    assert list_tags(files) == []


# --- a branch that was removed and created again ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("listable", [True, False])
def test_a_tip_is_identified_by_the_content_of_its_file(listable: bool) -> None:
    inner = MemoryStore()
    files, first = created(inner if listable else Without(inner, listable=False))
    second = put_snapshot(files, 2, [1])
    outcome, tip = put_next(files, first, second)
    assert outcome == COMMITTED and tip is not None
    assert open_tip(files, MAIN, tip) == tip
    inner.erase_prefix("")
    anew = create_repository(files, info(7).id, snapshot(info(7)))
    assert open_tip(files, MAIN, tip) == anew, "the number of the known file is not there"
    put_file(files, MAIN, 1, 7)
    assert open_tip(files, MAIN, tip) == Tip(MAIN, 1, info(7).id), "it is there, and says something else"
    for known in (tip, first):
        with pytest.raises(ConflictError, match="not the one"):
            tip_after(files, known)
    assert tip_after(files, anew) == Tip(MAIN, 1, info(7).id)
    assert tip_after(files, Tip(MAIN, 1, info(7).id)) is None


def test_a_reference_points_to_a_snapshot_that_can_be_read() -> None:
    files, first = created()
    damaged, absent = put_snapshot(files, 2, [1]), some_id()
    files.store.set(f"snapshots/{encode_id(damaged)}", b"\\x9a")
    before = files.store.list()
    for snapshot_id, error in ((damaged, FormatError), (absent, NotFoundError)):
        for change in (
            lambda: create_tag(files, "t", snapshot_id),  # noqa: B023
            lambda: create_branch(files, "b", snapshot_id),  # noqa: B023
            lambda: reset_branch(files, MAIN, snapshot_id),  # noqa: B023
        ):
            with pytest.raises(error):
                change()
    assert files.store.list() == before
    assert open_tip(files, MAIN) == first


@pytest.mark.parametrize("left", ["attributes/", "gc/", "refs/branch.dev/", "refs/heads/"])
def test_a_place_with_parts_of_a_repository_is_refused(left: str) -> None:
    """A new repository would hide them, and its collections would remove them. What a killed creator leaves is no obstacle."""
    store = MemoryStore()
    frazil.Repository.create(store)
    store.erase(next(key for key in store.list_prefix("refs/branch.main/") if key.endswith(".json")))
    store.set(f"{left}x", b"")
    before = {key: store.get(key) for key in store.list()}
    with pytest.raises(AlreadyExistsError, match="parts of a repository"):
        frazil.Repository.create(store)
    with pytest.raises(NotFoundError, match="restore its refs/"):
        frazil.Repository.open(store).verify()
    assert {key: store.get(key) for key in store.list()} == before
    store.erase(f"{left}x")
    frazil.Repository.create(store)
