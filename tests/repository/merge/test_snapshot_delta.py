"""Differences: of random histories compared with the changes made; each kind of change; and their text."""

from __future__ import annotations

import pickle
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.documents import encoded_snapshot
from tests.formats.encoding import Pairs, encoded
from tests.repository.archived_repositories import empty_files, info, put_manifests, snapshot, some_id
from tests.repository.models import columns_of, manifest_of, together
from tests.repository.plain_history import CHUNK, PlainSession, State, delta_of, sides

from frazil.errors import NotFoundError
from frazil.formats.alpha.attributes import encode_attributes
from frazil.formats.alpha.snapshots import SnapshotFile, decode_snapshot
from frazil.formats.alpha.zarr_metadata import NamedConfiguration, ZarrArrayMetadata
from frazil.formats.json_values import Json
from frazil.formats.manifests import NATIVE, Manifest, node_manifest
from frazil.formats.msgpack import pack
from frazil.formats.nodes import ArrayData, AttributesReference, ManifestReference, Nodes, NodeSnapshot
from frazil.repository.alpha.file_cache import Files
from frazil.repository.alpha.node_matching import match_nodes
from frazil.repository.manifests.boxes import extents_of
from frazil.repository.merge.difference import ChunkDifference, Difference, Resize
from frazil.repository.merge.snapshot_delta import snapshot_delta
from frazil.repository.session.attributes import same_attributes

FREE = {"frazil": pack({"next_node": 100})}
METADATA = ZarrArrayMetadata((4, 4), "int32", (2, 2), "Slash", 0, (NamedConfiguration("bytes", {"endian": "little"}),))


def read(nodes: Nodes | Mapping[str, NodeSnapshot], *, free: bool = True) -> SnapshotFile:
    """A snapshot as read from a file."""
    made = snapshot(info(1))._replace(
        nodes=nodes if isinstance(nodes, Nodes) else Nodes(nodes), flags=FREE if free else {}
    )
    return decode_snapshot(encoded_snapshot(made))


def array(number: int, path: str, *manifests: ManifestReference, **fields: object) -> NodeSnapshot:
    return NodeSnapshot(number, path, None, ArrayData(METADATA._replace(**fields), manifests))  # type: ignore[arg-type]


def group(number: int, path: str, attributes: Mapping[str, Json] | AttributesReference | None = None) -> NodeSnapshot:
    return NodeSnapshot(number, path, attributes)


def nodes(*some: NodeSnapshot) -> Nodes:
    return Nodes({node.path: node for node in some})


def compare(
    files: Files,
    old: SnapshotFile,
    new: SnapshotFile,
    same_below: int | None = None,
    chunks_of: dict[str, None] | None = None,
) -> Difference:
    matching = match_nodes(old.nodes, new.nodes, same_below)
    return snapshot_delta(files, old, new, matching, chunks_of=chunks_of).difference


def differ(files: Files, old: Nodes, new: Nodes, same_below: int | None = 100) -> Difference:
    return compare(files, read(old), read(new), same_below=same_below)


def put(files: Files, node: int, chunks: Mapping[tuple[int, int], bytes]) -> ManifestReference:
    """A manifest of inline chunks."""
    file = some_id()
    put_manifests(files, [(file, manifest_of(node, chunks, 2))])
    return ManifestReference(file, extents_of(columns_of(chunks, 2)).listed())


def columns(*chunks: tuple[int, int]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return columns_of(chunks, 2)


NONE = columns()


# --- the result of random histories -------------------------------------------------------------------------------------------------


def stored(state: State, files: Files, *, free: bool, old: SnapshotFile | None = None) -> SnapshotFile:
    """A state as a snapshot: an array whose chunks differ from those in an older one has another manifest."""
    made = {}
    for number, node in state.items():
        manifests: tuple[ManifestReference, ...] = ()
        known = (
            None
            if old is None
            else next((old.nodes.get(path) for path in old.nodes if old.nodes.id_of(path) == number), None)
        )
        if node.chunks:
            chunks = dict(sorted(node.chunks.items()))
            made_manifest = natives(number, columns_of(chunks, 2), [stored.number for stored in chunks.values()])
            if isinstance(known, NodeSnapshot) and known.array is not None and known.array.manifests:
                (before,) = known.array.manifests
                (same,) = files.manifests([before.id])
                if np.array_equal(same.ids, made_manifest.ids):
                    manifests = (before,)
            if not manifests:
                file = some_id()
                put_manifests(files, [(file, made_manifest)])
                manifests = (ManifestReference(file, extents_of(columns_of(chunks, 2)).listed() if free else ()),)
        metadata = METADATA._replace(shape=node.shape, chunk_shape=CHUNK, fill_value=node.metadata)
        made[node.path] = NodeSnapshot(
            number,
            node.path,
            {"value": node.attributes} if node.attributes else None,
            ArrayData(metadata, manifests) if node.is_array else None,
        )
    return read(made, free=free)


def natives(node: int, chunks: np.ndarray[tuple[int, ...], np.dtype[np.int64]], numbers: list[int]) -> Manifest:
    count = len(chunks)
    ids = np.frombuffer(b"".join([number.to_bytes(12, "big") for number in numbers]), np.uint8).reshape(count, 12)
    zeros = np.zeros(count, np.int64)
    return node_manifest(node, chunks, np.full(count, NATIVE, np.uint8), ids, zeros, zeros)


@settings(max_examples=150, deadline=None)
@given(sides(), st.booleans())
def test_random_histories(drawn: tuple[State, PlainSession, PlainSession], free: bool) -> None:
    base, ours, theirs = drawn
    files = empty_files()
    began = stored(base, files, free=free)
    first = max(base, default=0) + 1
    for state in (base, ours.nodes, theirs.nodes):
        found = compare(files, began, stored(state, files, free=free, old=began), same_below=first)
        assert found == delta_of(base, state).difference
        assert found.is_empty == (found == Difference()) == (str(found) == "")
    assert pickle.loads(pickle.dumps(found)) == found


# --- nodes --------------------------------------------------------------------------------------------------------------------------------


def test_nodes_are_followed_by_their_ids() -> None:
    files = empty_files()
    old = nodes(group(0, "/"), group(1, "/g"), array(2, "/g/t"), array(3, "/gone"), array(4, "/t"))
    new = nodes(
        group(0, "/"), group(1, "/h"), array(2, "/h/t"), array(100, "/gone"), array(101, "/g"), group(4, "/u", {"a": 1})
    )
    found = differ(files, old, new)
    assert found == Difference(
        added=("/g", "/gone", "/u"),
        removed=("/gone", "/t"),
        renamed=(("/g", "/h"), ("/g/t", "/h/t")),
        arrays=frozenset({"/g", "/gone", "/h/t", "/t"}),
    )
    assert (
        str(found)
        == "+ /g (array)\n- /gone (array)\n+ /gone (array)\nr /g -> /h\nr /g/t -> /h/t\n- /t (array)\n+ /u (group)"
    )


def test_nodes_are_matched_by_path_if_ids_are_unknown() -> None:
    files = empty_files()
    old = nodes(group(1, "/g"), array(2, "/t"), group(5, "/x"))
    new = nodes(group(1, "/h"), array(7, "/t", shape=(4, 6)), array(5, "/x"))
    found = differ(files, old, new, None)
    assert found == Difference(
        added=("/h", "/x"),
        removed=("/g", "/x"),
        resized={"/t": Resize((4, 4), (4, 6), (2, 2))},
        arrays=frozenset({"/t", "/x"}),
    )


def test_two_nodes_that_changed_places() -> None:
    old, new = nodes(group(1, "/a"), array(2, "/b")), nodes(array(2, "/a"), group(1, "/b", {"x": 1}))
    found = differ(empty_files(), old, new)
    assert found == Difference(renamed=(("/a", "/b"), ("/b", "/a")), attributes=("/b",), arrays=frozenset({"/a"}))
    assert str(found) == "r /b -> /a\nr /a -> /b  attributes"


def test_metadata_shapes_and_ranks() -> None:
    old = nodes(array(1, "/fill"), array(2, "/shape"), array(3, "/both"), array(4, "/rank"), array(5, "/same"))
    new = nodes(
        array(1, "/fill", fill_value=1),
        array(2, "/shape", shape=(6, 2)),
        array(3, "/both", shape=(6, 2), fill_value=1),
        array(4, "/rank", shape=(4,), chunk_shape=(2,)),
        array(5, "/same"),
    )
    found = differ(empty_files(), old, new)
    assert found == Difference(
        added=("/rank",),
        removed=("/rank",),
        metadata=("/both", "/fill"),
        resized={"/shape": Resize((4, 4), (6, 2), (2, 2))},
        arrays=frozenset({"/both", "/fill", "/rank", "/shape"}),
    )
    assert (
        str(found)
        == "~ /both  metadata\n~ /fill  metadata\n- /rank (array)\n+ /rank (array)\n~ /shape  shape (4, 4) -> (6, 2)"
    )


def test_attributes_wherever_they_lie() -> None:
    files = empty_files()
    one, other = some_id(), some_id()
    files.write_attributes(one, encode_attributes([{"a": 1}, {"a": 1.0}]))
    files.write_attributes(other, encode_attributes([{"a": 1}]))
    absent = AttributesReference(some_id(), 0)
    values: list[Mapping[str, Json] | AttributesReference | None] = [
        {"a": 1}, AttributesReference(one, 0), AttributesReference(other, 0), AttributesReference(one, 1), {"a": 1.0}, None, {}
    ]  # fmt: skip
    same = [{0, 1, 2}, {3, 4}, {5, 6}]
    for at, left in enumerate(values):
        for to, right in enumerate(values):
            expected = any({at, to} <= some for some in same)
            assert same_attributes(files, left, right) == expected
            found = differ(files, nodes(group(1, "/g", left)), nodes(group(1, "/g", right)))
            assert found == Difference(attributes=() if expected else ("/g",))
    assert same_attributes(files, absent, absent)
    with pytest.raises(NotFoundError):
        same_attributes(files, absent, {"a": 1})


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (1, True, False),
        (0, 0.0, False),
        (float("nan"), float("nan"), True),
        ([1, [2, {"a": None}]], (1, (2, {"a": None})), True),
        ([1], [1, 2], False),
        ([1], {"0": 1}, False),
        ("1", 1, False),
        ("ab", ["a", "b"], False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1}, {"b": 1}, False),
        (None, False, False),
    ],
)
def test_the_same_json(left: Json, right: Json, same: bool) -> None:
    files = empty_files()
    assert same_attributes(files, {"value": left}, {"value": right}) == same
    assert same_attributes(files, {"value": right}, {"value": left}) == same


def test_nodes_that_cannot_be_read_are_compared_as_bytes() -> None:
    def broken(*entries: tuple[str, object]) -> SnapshotFile:
        made = read(Nodes())
        assert encoded_snapshot(made)[-1:] == b"\x80"  # the map of nodes
        return decode_snapshot(encoded_snapshot(made)[:-1] + encoded(Pairs(list(entries))))

    files = empty_files()
    one, other = [1, "/a", None, "Nothing"], [1, "/a", None, "Something"]
    good = [2, "/b", None, "Group"]
    assert compare(files, broken(("/a", one)), broken(("/a", one), ("/b", good))).added == ("/b",)
    for same_below in (None, 100):
        found = compare(
            files, broken(("/a", one), ("/b", good)), broken(("/a", other), ("/b", good)), same_below=same_below
        )
        assert found == Difference(metadata=("/a",))
    assert compare(files, broken(("/a", "?")), broken(("/a", other)), same_below=100) == Difference(metadata=("/a",))
    assert compare(files, broken(("/a", one)), broken()) == Difference(removed=("/a",))
    assert compare(files, broken(), broken(("/a", one)), same_below=1) == Difference(added=("/a",))


# --- chunks -------------------------------------------------------------------------------------------------------------------------------


def test_chunks_of_arrays() -> None:
    files = empty_files()
    before = put(files, 1, {(0, 0): b"a", (0, 1): b"b", (9, 9): b"outside"})
    after = put(files, 1, {(0, 0): b"c", (1, 1): b"d", (8, 8): b"outside"})
    new = put(files, 3, {(1, 0): b"e"})
    found = differ(
        files, nodes(array(1, "/t", before), group(2, "/u")), nodes(array(1, "/t", after), array(3, "/new", new))
    )
    assert found.chunks == {
        "/t": ChunkDifference(columns((0, 0), (1, 1)), columns((0, 1))),
        "/new": ChunkDifference(columns((1, 0)), NONE),
    }
    assert str(found) == "+ /new (array)  1 chunk written\n~ /t  2 chunks written; 1 chunk removed\n- /u (group)"
    assert found.to_json(1) == {
        "added": [{"path": "/new", "kind": "array"}],
        "removed": [{"path": "/u", "kind": "group"}],
        "renamed": [],
        "metadata": [],
        "attributes": [],
        "resized": [],
        "chunks": [
            {"path": "/new", "written": 1, "removed": 0, "written_chunks": [[1, 0]], "removed_chunks": []},
            {"path": "/t", "written": 2, "removed": 1, "written_chunks": [[0, 0]], "removed_chunks": [[0, 1]]},
        ],
    }
    assert found != found._replace(chunks={})
    assert len({*found.chunks.values(), *found.chunks.values()}) == 2


def test_a_resize_and_a_rename_in_json() -> None:
    found = differ(empty_files(), nodes(array(1, "/t")), nodes(array(1, "/u", shape=(6, 4))))
    assert found.to_json()["resized"] == [{"path": "/u", "old": [4, 4], "new": [6, 4]}]
    assert found.to_json()["renamed"] == [{"old": "/t", "new": "/u"}]
    assert str(found) == "r /t -> /u  shape (4, 4) -> (6, 4)"


def test_chunks_of_some_arrays_alone() -> None:
    """Unneeded manifests are not loaded: they do not exist here."""
    files = empty_files()
    lost = ManifestReference(some_id())
    changed = put(files, 1, {(0, 0): b"a"})
    old, new = (
        nodes(array(1, "/t"), array(2, "/u")),
        nodes(array(1, "/v", changed), array(2, "/u", lost), array(3, "/new", lost)),
    )
    found = compare(files, read(old), read(new), same_below=3, chunks_of={"/t": None})
    assert found.chunks == {"/v": ChunkDifference(columns((0, 0)), NONE)}
    assert (found.added, found.renamed) == (("/new",), (("/t", "/v"),))
    with pytest.raises(NotFoundError):
        compare(files, read(old), read(new), same_below=3)


def test_manifests_of_many_arrays_are_fetched_together() -> None:
    files = empty_files()
    count = 150
    chunks = {number: {(0, 0): bytes([number])} for number in range(count)}
    listed = {number: put(files, number, some) for number, some in chunks.items()}
    old = nodes(*[array(number, f"/{number:03}") for number in range(count)])
    new = nodes(*[array(number, f"/{number:03}", listed[number]) for number in range(count)])
    found = differ(files, old, new)
    assert list(found.chunks) == [f"/{number:03}" for number in range(count)]


def test_a_manifest_shared_by_all_arrays() -> None:
    """As the library of the alpha wrote them: every commit has one, which all arrays list."""
    files = empty_files()
    shared = [some_id(), some_id()]
    for file, last in zip(shared, (b"x", b"y"), strict=True):
        parts = {1: {(0, 0): b"a", (1, 1): b"b"}, 2: {(0, 0): b"c", (0, 1): last}, 3: {(1, 0): b"d"}}
        put_manifests(files, [(file, together(*[manifest_of(node, part, 2) for node, part in parts.items()]))])
    old, new = (
        read(nodes(*[array(number, f"/{number}", ManifestReference(file)) for number in (1, 2, 3)]), free=False)
        for file in shared
    )
    found = compare(files, old, new, same_below=4)
    assert found == Difference(chunks={"/2": ChunkDifference(columns((0, 1)), NONE)}, arrays=found.arrays)
    assert compare(files, old, old) == Difference()
