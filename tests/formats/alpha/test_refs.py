"""Branches and tags as files, and the names of files."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats import strategies
from tests.formats.archives import NAMES, files_in

from frazil.errors import FormatError, InvalidInputError
from frazil.formats.alpha import refs
from frazil.formats.alpha.refs import LAST_SEQUENCE, Ref, emit_ref, parse_ref
from frazil.formats.ids import encode_id

KEY = "refs/branch.main/ZZZZZZZZ.json"
SNAPSHOT = bytes(range(12))
kinds = st.sampled_from(["branch", "tag"])
names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=20)


@pytest.mark.parametrize("archive", NAMES)
@pytest.mark.rule("I120", "I150", "I152", "I153")
def test_reference_files_of_the_library_are_the_same_bytes(archive: str) -> None:
    for key, data in files_in(archive, "refs").items():
        ref = parse_ref(data, key)
        assert not ref.deleted
        assert emit_ref(ref) == data
        _, folder, file = key.split("/")
        kind_and_name = refs.parse_folder(folder)
        assert kind_and_name is not None
        kind, name = kind_and_name
        if kind == "tag":
            assert refs.folder_of("tag", name) + "ref.json" == key
        else:
            sequence = refs.parse_sequence(file)
            assert sequence is not None
            assert refs.branch_key(name, sequence) == key


@pytest.mark.rule("I159")
def test_the_example_of_the_specification() -> None:
    data = b'{"snapshot":"VY76P925PRY57WFEK410"}'
    ref = parse_ref(data, KEY)
    assert ref.snapshot is not None
    assert encode_id(ref.snapshot) == "VY76P925PRY57WFEK410"
    assert emit_ref(ref) == data


@given(strategies.ids, st.booleans())
def test_references_come_back(snapshot: bytes, deleted: bool) -> None:
    assert parse_ref(emit_ref(Ref(snapshot, deleted)), KEY) == Ref(snapshot, deleted)


@pytest.mark.parametrize(
    "data",
    [
        b'{"snapshot":"%s"}\n',
        b' { "snapshot" : "%s" } ',
        b'{"x":[1],"snapshot":"%s"}',
        b'{"snapshot":"%s","deleted":false}',
    ],
)
def test_white_space_and_other_members_are_let_be(data: bytes) -> None:
    assert parse_ref(data % b"000g4or40m30e2o9i85g", KEY) == Ref(SNAPSHOT)


def test_a_branch_file_can_delete_its_branch() -> None:
    assert emit_ref(Ref(SNAPSHOT, deleted=True)) == b'{"snapshot":"000G40R40M30E209185G","deleted":true}'
    assert emit_ref(Ref(None, deleted=True)) == b'{"deleted":true}'
    assert parse_ref(b'{"deleted":true}', KEY) == Ref(None, deleted=True)
    with pytest.raises(InvalidInputError, match="must point to a snapshot"):
        emit_ref(Ref(None))


@pytest.mark.parametrize(
    "data",
    [
        *(
            b"",
            b"{",
            b"[]",
            b"null",
            b"{}",
            b'"000G40R40M30E209185G"',
            b'{"snapshot":null}',
            b'{"snapshot":7}',
            b'{"snapshot":["x"]}',
        ),
        *(
            b'{"snapshot":""}',
            b'{"snapshot":"../../../../etc/pass"}',
            b'{"snapshot":"000G40R40M30E209185"}',
            b"\xff\xfe",
            b"[" * 60000,
        ),
        *(
            b'{"snapshot":"000G40R40M30E209185G","deleted":1}',
            b'{"snapshot":"000G40R40M30E209185G"}' + b" " * 2**17,
            b"1" * 20000,
        ),
    ],
)
@pytest.mark.rule("I152")
def test_invalid_references_are_refused(data: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        parse_ref(data, KEY)
    assert caught.value.key == KEY


@given(st.integers(0, 100))
def test_references_that_are_cut_short_are_refused(cut: int) -> None:
    data = emit_ref(Ref(SNAPSHOT, deleted=True))
    with pytest.raises(FormatError):
        parse_ref(data[: cut % len(data)], KEY)


# --- branch files ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sequence", "file"),
    [
        (0, "ZZZZZZZZ"),
        (1, "ZZZZZZZY"),
        (5, "ZZZZZZZT"),
        (100, "ZZZZZZWV"),
        (LAST_SEQUENCE, "00000000"),
        (LAST_SEQUENCE - 1, "00000001"),
    ],
)
@pytest.mark.rule("I189", "I190", "I191", "I196", "I197", "I198")
def test_known_branch_files(sequence: int, file: str) -> None:
    assert refs.branch_key("main", sequence) == f"refs/branch.main/{file}.json"
    assert refs.parse_sequence(f"{file}.json") == sequence


@given(st.integers(0, LAST_SEQUENCE), st.integers(0, LAST_SEQUENCE))
@pytest.mark.rule("I192", "I194")
def test_the_keys_of_later_branch_files_sort_first(one: int, other: int) -> None:
    assert (refs.branch_key("b", one) > refs.branch_key("b", other)) == (one < other)
    assert refs.parse_sequence(refs.branch_key("b", one).rpartition("/")[2]) == one


@pytest.mark.rule("I174", "I198")
def test_the_commit_behind_the_last_file_is_refused() -> None:
    assert refs.next_sequence("main", 0) == 1
    assert refs.next_sequence("main", LAST_SEQUENCE - 1) == LAST_SEQUENCE == 1099511627775
    with pytest.raises(InvalidInputError, match="'main' is full"):
        refs.next_sequence("main", LAST_SEQUENCE)
    for sequence in (-1, LAST_SEQUENCE + 1):
        with pytest.raises(InvalidInputError, match="sequence numbers"):
            refs.branch_key("main", sequence)


@pytest.mark.parametrize(
    "file",
    [
        "",
        ".json",
        "ZZZZZZZZ",
        "ZZZZZZZZ.jsonx",
        "zzzzzzzz.json",
        "ZZZZZZZZZ.json",
        "ZZZZZZZU.json",
        ".DS_Store",
        "ZZZZZZZ.json",
        "ZZZZZZZZ.json.json",
    ],
)
def test_foreign_files_of_a_branch_folder_have_no_number(file: str) -> None:
    assert refs.parse_sequence(file) is None


# --- names -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("main", "main"),
        ("it works!", "it works!"),
        ("a*b", "a%2Ab"),
        ("odd tag! ä~*?", "odd tag! %C3%A4%7E%2A%3F"),
        ("100%41", "100%2541"),
        ("#[]{}", "%23%5B%5D%7B%7D"),
        ('\\^`"<>|', "%5C%5E%60%22%3C%3E%7C"),
        ("a\tb\x7f", "a%09b%7F"),
        ("..", ".."),
    ],
)
@pytest.mark.rule("I185", "I205")
def test_names_are_quoted_on_disk(name: str, folder: str) -> None:
    assert refs.folder_of("branch", name) == f"refs/branch.{folder}/"
    assert refs.branch_key(name, 0) == f"refs/branch.{folder}/ZZZZZZZZ.json"
    assert refs.folder_of("tag", name) == f"refs/tag.{folder}/"
    assert refs.parse_folder(f"branch.{folder}") == ("branch", name)
    assert refs.parse_folder(f"tag.{folder}") == ("tag", name)


@given(kinds, names)
def test_names_come_back_from_their_folders(kind: refs.RefKind, name: str) -> None:
    folder = refs.folder_of(kind, name)
    assert folder.isascii()
    assert folder.count("/") == 2
    assert refs.parse_folder(folder.removeprefix(refs.REFS).removesuffix("/")) == (kind, name)
    assert refs.folders_of(kind, name)[0] == folder


@pytest.mark.parametrize(
    ("folder", "name"),
    [("100%", "100%"), ("a%2", "a%2"), ("a%zz", "a%zz"), ("%FF", "%FF"), ("ä~", "ä~"), ("a%2ab", "a*b")],
)
def test_unquoted_names_are_read(folder: str, name: str) -> None:
    assert refs.parse_folder(f"tag.{folder}") == ("tag", name)


def test_repositories_written_straight_to_s3_have_names_unquoted() -> None:
    assert refs.folders_of("branch", "main") == ("refs/branch.main/",)
    assert refs.folders_of("branch", "a~b") == ("refs/branch.a%7Eb/", "refs/branch.a~b/")


@pytest.mark.parametrize(
    "folder", ["", "other", "branch", "branch.", "tag.", "branches.x", "heads", ".tag.x", "tag.a%2Fb"]
)
def test_foreign_folders_are_no_reference(folder: str) -> None:
    assert refs.parse_folder(folder) is None


@pytest.mark.parametrize("kind", ["branch", "tag"])
@pytest.mark.parametrize("name", ["", "a/b", "/", "../x", "\0", "\ud800", "x" * 300, "ä" * 50, None, 7])
@pytest.mark.rule("I186", "I207")
def test_names_that_cannot_be_are_refused(kind: refs.RefKind, name: object) -> None:
    for check in (refs.check_name, refs.check_new_name):
        with pytest.raises(InvalidInputError, match=f"the name of a {kind} must"):
            check(kind, name)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["..", ".", "a\\b", "a\nb", "\x7f", "\u202e"])
def test_names_that_would_be_misread_are_not_made_but_opened(name: str) -> None:
    refs.check_name("branch", name)
    with pytest.raises(InvalidInputError, match="must not be relative"):
        refs.check_new_name("branch", name)


@pytest.mark.parametrize("name", ["main", "it works!", "a*b", "ünï", "v1.0", "-", "a.b~c", "x" * 200])
def test_usual_names_of_branches_and_tags_are_valid(name: str) -> None:
    refs.check_new_name("branch", name)
    refs.check_new_name("tag", name)


@given(strategies.ids)
@pytest.mark.rule("I121", "I122", "I123")
def test_files_lie_in_their_folders(value: bytes) -> None:
    text = encode_id(value)
    assert refs.snapshot_key(value) == f"snapshots/{text}"
    assert refs.manifest_key(value) == f"manifests/{text}"
    assert refs.attributes_key(value) == f"attributes/{text}"


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: json.dumps({"snapshot": text}).encode()))
def test_random_bytes_are_refused_or_read(data: bytes) -> None:
    key = None
    try:
        assert len(parse_ref(data, KEY).snapshot or b"") in {0, 12}
    except FormatError as error:
        key = error.key
    assert key in {None, KEY}
