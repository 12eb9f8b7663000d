"""Snapshot files: those of the library byte for byte, those that it would accept, and those that must be refused."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats import documents, strategies
from tests.formats.archives import NAMES, files_in
from tests.formats.documents import encoded_snapshot
from tests.formats.encoding import Pairs, Raw, Wide, decoded, encoded

from frazil.errors import FormatError, InvalidInputError
from frazil.formats.alpha.snapshots import FileInfo, SnapshotFile, decode_snapshot
from frazil.formats.ids import decode_id, encode_id
from frazil.formats.nodes import BrokenNode, Nodes, NodeSnapshot
from frazil.formats.snapshots import SnapshotInfo
from frazil.formats.times import parse_time

KEY = "snapshots/X"


def in_values(snapshot: SnapshotFile) -> SnapshotFile:
    """The same with every node decoded, so that encoding copies nothing."""
    nodes = {path: snapshot.nodes.get(path) for path in snapshot.nodes}
    assert not [node for node in nodes.values() if isinstance(node, BrokenNode)]
    return snapshot._replace(
        nodes=Nodes({path: node for path, node in nodes.items() if isinstance(node, NodeSnapshot)})
    )


# --- files of the library ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("archive", NAMES)
@pytest.mark.rule("I60", "I219", "I223")
def test_snapshots_of_the_library_are_the_same_bytes(archive: str) -> None:
    for key, data in files_in(archive, "snapshots").items():
        snapshot = decode_snapshot(data, key)
        assert encoded_snapshot(snapshot) == data
        # the order of a codec's configuration was random in the file; it is preserved
        assert encoded_snapshot(in_values(snapshot)) == data
        assert in_values(snapshot) == snapshot


@pytest.mark.parametrize("archive", NAMES)
@pytest.mark.rule("I223", "I230", "I231", "I232", "I234", "I235", "I237")
def test_snapshots_of_the_library_have_the_values_of_their_bytes(archive: str) -> None:
    for data in files_in(archive, "snapshots").values():
        snapshot, plain = decode_snapshot(data), decoded(data)
        assert isinstance(plain, list)
        assert [encode_id(file.id) for file in snapshot.manifest_files] == [file[0] for file in plain[2]]
        assert (snapshot.total_parents, len(snapshot.history)) == (plain[4], plain[5])
        assert [info.message for info in snapshot.history] == [info[2] for info in plain[6]]
        assert (encode_id(snapshot.metadata.id), snapshot.metadata.message) == (plain[7][0], plain[7][2])
        assert snapshot.started_at == parse_time(plain[8])
        assert list(snapshot.nodes) == list(plain[10])
        for path, node in plain[10].items():
            read = snapshot.nodes.get(path)
            assert isinstance(read, NodeSnapshot)
            assert (read.id, read.path, read.attributes) == (node[0], node[1], node[2]["Inline"])
            assert snapshot.nodes.is_array(path) is (read.array is not None) is (node[3] != "Group")
            if read.array is not None:
                shape, data_type, chunks = node[3]["Array"][0][:3]
                assert read.array.metadata[:3] == (tuple(shape), data_type, tuple(chunks))


def test_the_smallest_file_byte_for_byte() -> None:
    data = (
        bytes.fromhex("9b 00 80 90 90 00 00 90 93 b4")
        + b"6W05WADKS87N84AMH5KG\xbb2024-10-13T18:53:45.425022Z\xb6Repository initialized"
        + b"\xbb2024-10-13T18:53:45.425069Z\x80\x80"
    )
    assert len(data) == 111
    time = parse_time("2024-10-13T18:53:45.425022Z")
    assert time is not None
    snapshot = SnapshotFile(
        SnapshotInfo(decode_id("6W05WADKS87N84AMH5KG"), time, "Repository initialized"), time + 47000
    )
    assert decode_snapshot(data) == snapshot
    assert encoded_snapshot(snapshot) == data


# --- files of ours -------------------------------------------------------------------------------------------------------------------


@given(strategies.snapshots)
@pytest.mark.rule("I219", "I223", "I225", "I227", "I228", "I236")
def test_snapshots_come_back(snapshot: SnapshotFile) -> None:
    data = encoded_snapshot(snapshot)
    read = decode_snapshot(data, KEY)
    assert read == snapshot
    assert encoded_snapshot(read) == data
    assert encoded_snapshot(in_values(read)) == data


def test_the_library_lets_the_count_of_a_long_history_wrap_around() -> None:
    info = SnapshotInfo(bytes(12), 0, "")
    data = encoded_snapshot(SnapshotFile(info, 0, history=(info,) * 65537, total_parents=65537))
    assert len(decode_snapshot(data).history) == 65537
    assert decoded(data)[4:6] == [65537, 1]  # type: ignore[index]


@pytest.mark.parametrize(
    "changes",
    [
        {"total_parents": 2**32},
        {"total_parents": -1},
        {"started_at": 10**30},
        {"properties": {"x": {1}}},
        {"manifest_files": (FileInfo(b"x"),)},
        {"attribute_files": (FileInfo(bytes(12), 65536),)},
        {"metadata": SnapshotInfo(bytes(12), 0, "\ud800")},
        {"metadata": SnapshotInfo(bytes(11), 0, "")},
    ],
)
def test_snapshots_that_the_format_cannot_hold_are_not_written(changes: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError):
        encoded_snapshot(SnapshotFile(SnapshotInfo(bytes(12), 0, ""), 0)._replace(**changes))


# --- files that the library would accept ---------------------------------------------------------------------------------------------


PLAIN = decode_snapshot(documents.snapshot(documents.group("/"), documents.array("/a")))
VARIED = {
    "named, backwards, with another field": encoded(
        documents.named(
            "snapshot",
            [*[*documents.FIELDS.values()][:10], Pairs([("/", documents.group("/")), ("/a", documents.array("/a"))])],
        )
    ),
    "named parts": documents.snapshot(
        documents.group("/"),
        documents.array("/a"),
        metadata=documents.named("info", [documents.ID, documents.TIME, "a message"]),
        short_term_history=[documents.named("info", [documents.OTHER, documents.TIME, "before"])],
        manifest_files=[documents.named("file", [documents.ID, 0])],
    ),
    "wide headers and numbers": documents.snapshot(
        documents.group("/"),
        documents.array("/a"),
        icechunk_snapshot_format_version=Wide(0),
        icechunk_snapshot_format_flags=Wide({}),
        manifest_files=Wide([Wide([Wide(documents.ID), Wide(0)])]),
        total_parents=Wide(1),
    ),
    "a wrong count of ancestors": documents.snapshot(
        documents.group("/"), documents.array("/a"), short_term_parents=77
    ),
    "ids in small letters": documents.snapshot(
        documents.group("/"),
        documents.array("/a"),
        metadata=[documents.ID.lower().replace("0", "o"), documents.TIME, "a message"],
    ),
    "another form of a time": documents.snapshot(
        documents.group("/"), documents.array("/a"), started_at="2024-10-13t20:53:45.425022000000+02:00"
    ),
    "nodes in another order": documents.snapshot(documents.array("/a"), documents.group("/")),
    "a node twice": documents.snapshot(documents.group("/a"), documents.group("/"), documents.array("/a")),
}


@pytest.mark.parametrize("data", VARIED.values(), ids=VARIED)
def test_other_forms_of_the_same_are_read(data: bytes) -> None:
    read = decode_snapshot(data, KEY)
    assert read == PLAIN
    assert encoded_snapshot(in_values(read)) == encoded_snapshot(PLAIN)
    assert decode_snapshot(encoded_snapshot(read)) == PLAIN


@pytest.mark.parametrize("digits", range(13))
def test_times_have_any_number_of_digits(digits: int) -> None:
    fraction = "." + "0" * digits if digits else ""
    read = decode_snapshot(documents.snapshot(started_at=f"2024-10-13T18:53:45{fraction}Z"))
    assert read.started_at == parse_time("2024-10-13T18:53:45Z")


@pytest.mark.rule("I225", "I228", "I236")
def test_flags_properties_and_attribute_files_are_kept() -> None:
    data = documents.snapshot(
        documents.group("/", attributes={"Ref": [documents.OTHER, 3]}),
        icechunk_snapshot_format_flags=Pairs([("x", Raw(b"\xd4\x05z")), ("y", b"\xff"), ("z", {1: [2]})]),
        properties={"author": "me", "n": [1, None, {"x": 2.5}]},
        attribute_files=[[documents.OTHER, 0], [documents.ID, 9]],
        manifest_files=[[documents.ID, 7]],
    )
    snapshot = decode_snapshot(data, KEY)
    assert snapshot.flags == {"x": b"\xd4\x05z", "y": b"\xc4\x01\xff", "z": b"\x81\x01\x91\x02"}
    assert snapshot.properties == {"author": "me", "n": [1, None, {"x": 2.5}]}
    assert snapshot.attribute_files == (FileInfo(decode_id(documents.OTHER)), FileInfo(decode_id(documents.ID), 9))
    assert encoded_snapshot(snapshot) == encoded_snapshot(in_values(snapshot)) == data
    changed = snapshot._replace(nodes=snapshot.nodes.changed({"/n": NodeSnapshot(5, "/n")}))
    again = decode_snapshot(encoded_snapshot(changed))
    assert again[:-1] == snapshot[:-1]
    assert again.nodes.get("/") == snapshot.nodes.get("/")


def test_a_history_that_was_bounded_is_read() -> None:
    snapshot = decode_snapshot(documents.snapshot(total_parents=1000, short_term_history=[], short_term_parents=0))
    assert (snapshot.total_parents, snapshot.history) == (1000, ())


# --- files that must be refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 9, 65535])
@pytest.mark.parametrize("form", ["array", "map"])
@pytest.mark.rule("I224")
def test_unknown_versions_are_refused_by_name(version: int, form: str) -> None:
    values = [version, *[*documents.FIELDS.values()][1:]]
    data = encoded(values if form == "array" else documents.named("snapshot", values))
    with pytest.raises(FormatError, match=f"format version {version}; only version 0") as caught:
        decode_snapshot(data, KEY)
    assert caught.value.key == KEY


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        ("ICE🧊CHUNK".encode() + b"x" * 60, "alpha.10 or later"),
        (b"\x28\xb5\x2f\xfd" + b"x" * 60, "alpha.9, compressed"),
        (b"\x93\x00\x80\x80", "must have 11 fields, found 3"),
        (documents.snapshot(manifest_files=[[documents.ID, 0, 1234]]), "manifest_files must have 2 fields, found 3"),
    ],
)
def test_files_of_other_versions_are_refused_by_name(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        decode_snapshot(data, KEY)
    assert caught.value.key == KEY


BAD = [
    {"icechunk_snapshot_format_version": None},
    {"icechunk_snapshot_format_version": 65536},
    {"icechunk_snapshot_format_flags": None},
    {"icechunk_snapshot_format_flags": Pairs([(1, 2)])},
    {"manifest_files": None},
    {"manifest_files": [documents.ID]},
    {"manifest_files": [["../../../../etc/pass", 0]]},
    {"manifest_files": [[documents.ID[:-1], 0]]},
    {"manifest_files": [["U" * 20, 0]]},
    {"manifest_files": [[b"0" * 12, 0]]},
    {"manifest_files": [[documents.ID, 65536]]},
    {"attribute_files": {}},
    {"total_parents": 2**32},
    {"total_parents": -1},
    {"total_parents": 1.0},
    {"short_term_parents": 65536},
    {"short_term_history": [[documents.ID, documents.TIME]]},
    {"short_term_history": [[documents.ID, "2024-10-13T18:53:45", "no zone"]]},
    {"metadata": [documents.ID, 1728845625, "a number"]},
    {"metadata": [documents.ID, documents.TIME, b"bytes"]},
    {"metadata": None},
    {"started_at": "yesterday"},
    {"properties": None},
    {"properties": {"x": b"bytes"}},
    {"nodes": []},
    {"nodes": {1: documents.group("/")}},
    {"nodes": Raw(b"\x80\x80")},
    {"nodes": Raw(b"\xc1")},
]


@pytest.mark.parametrize("changes", BAD, ids=lambda changes: str(changes)[:60])
def test_broken_files_are_refused_with_file_and_place(changes: dict[str, object]) -> None:
    with pytest.raises(FormatError) as caught:
        decode_snapshot(documents.snapshot(**changes), KEY)
    assert caught.value.key == KEY
    assert "at byte " in caught.value.message


WHOLE = documents.snapshot(
    documents.group("/", attributes={"Inline": {"a": [1, 2.5, "x"]}}),
    documents.array("/a"),
    properties={"x": [None, True]},
)


def test_a_file_that_is_cut_anywhere_is_refused() -> None:
    for cut in range(len(WHOLE)):
        with pytest.raises(FormatError) as caught:
            decode_snapshot(WHOLE[:cut], KEY)
        assert caught.value.key == KEY


def everything(data: bytes) -> None:
    """Reads a file as far as possible."""
    snapshot = decode_snapshot(data, KEY)
    for path in snapshot.nodes:
        snapshot.nodes.is_array(path)
        node = snapshot.nodes.get(path)
        assert node is not None
        assert not isinstance(node, BrokenNode) or node.error.key == KEY
    snapshot.nodes.highest_id()
    decode_snapshot(encoded_snapshot(snapshot))


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255))
def test_a_wrong_byte_is_refused_or_read(at: int, byte: int) -> None:
    key = None
    try:
        everything(WHOLE[:at] + bytes([byte]) + WHOLE[at + 1 :])
    except FormatError as error:
        key = error.key
    assert key in {None, KEY}


@given(st.data())
def test_swapped_and_doubled_parts_do_no_more_than_be_refused(data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(WHOLE)), min_size=3, max_size=3)))
    parts = [WHOLE[start:end] for start, end in zip([0, *cuts], [*cuts, len(WHOLE)], strict=True)]
    order = data.draw(st.lists(st.integers(0, 3), min_size=2, max_size=6))
    key = None
    try:
        everything(b"".join(parts[at] for at in order))
    except FormatError as error:
        key = error.key
    assert key in {None, KEY}


@pytest.mark.parametrize(
    "bomb",
    [
        b"\xdf\x7f\xff\xff\xff",
        b"\xdf\x00\x10\x00\x00" + b"\xa0\xdd\xff\xff\xff\xff",
        b"\x81\xa1/" + b"\x91" * 500_000,
        b"\xde\xff\xff" * 500,
    ],
)
@pytest.mark.parametrize(
    "member", ["nodes", "properties", "icechunk_snapshot_format_flags", "short_term_history", "manifest_files"]
)
def test_bombs_cost_no_memory(member: str, bomb: bytes) -> None:
    data = documents.snapshot(**{member: Raw(bomb)})
    tracemalloc.start()
    try:
        with pytest.raises(FormatError):
            decode_snapshot(data, KEY)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200_000 + 10 * len(data)


def test_deep_nodes_are_refused_when_they_are_touched() -> None:
    deep = Raw(b"\x91" * 100_000 + b"\xc0")
    snapshot = decode_snapshot(documents.snapshot([2, "/deep", {"Inline": {"x": deep}}, "Group"], documents.group("/")))
    assert isinstance(snapshot.nodes.get("/deep"), BrokenNode)
    assert isinstance(snapshot.nodes.get("/"), NodeSnapshot)


@pytest.mark.parametrize("ids", [(1, 1), (2**31, 2**31), (0, 0)])
def test_two_nodes_of_one_id_are_refused(ids: tuple[int, int]) -> None:
    """The chunks of one would be read as those of the other."""
    made = SnapshotFile(SnapshotInfo(b"a" * 12, 0, "x"), 0)
    groups = {path: NodeSnapshot(number, path) for path, number in zip(("/a", "/b"), ids, strict=True)}
    data = encoded_snapshot(made._replace(nodes=Nodes({**groups, "/c": NodeSnapshot(5, "/c")})))
    with pytest.raises(FormatError, match="/a and /b") as caught:
        decode_snapshot(data, KEY)
    assert caught.value.key == KEY
    groups["/b"] = groups["/b"]._replace(id=6)
    assert len(decode_snapshot(encoded_snapshot(made._replace(nodes=Nodes(groups)))).nodes) == 2
