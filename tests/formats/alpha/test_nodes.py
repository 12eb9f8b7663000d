"""The nodes of a snapshot: which forms are read, how they are ordered, and that one bad node harms no other."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats import documents, strategies
from tests.formats.encoding import Pairs, Raw, Wide, encoded

import frazil.formats.alpha.node_index as index_module
from frazil.errors import FormatError, InvalidInputError
from frazil.formats.alpha.node_index import NodeIndex, find_nodes
from frazil.formats.alpha.node_values import read_attributes
from frazil.formats.alpha.nodes import _gather, encode_nodes, index_nodes
from frazil.formats.alpha.zarr_metadata import NamedConfiguration, ZarrArrayMetadata, read_metadata
from frazil.formats.ids import decode_id
from frazil.formats.msgpack import Reader, write_map
from frazil.formats.nodes import (
    ArrayData,
    AttributesReference,
    BrokenNode,
    ManifestReference,
    Node,
    Nodes,
    NodeSnapshot,
    nodes_over,
)

KEY = "snapshots/X"
# by their components, not by their bytes
ORDER = ["/", "/a", "/a/b", "/a/b/c", "/a b", "/a!", "/a-b", "/a.b", "/a0", "/é"]


def opened(pairs: list[tuple[object, object]] | bytes) -> Nodes:
    data = pairs if isinstance(pairs, bytes) else encoded(Pairs(pairs))
    reader = Reader(data, KEY)
    count = reader.map("the nodes")
    paths, rows, end, _ = find_nodes(data, reader.at, count, KEY)
    assert end == len(data)
    return nodes_over(NodeIndex(data, KEY, paths, rows), {})  # with any ids


def of(*nodes: list[object]) -> Nodes:
    return opened([(node[1], node) for node in nodes])


def written(nodes: Nodes) -> bytes:
    return encode_nodes(nodes)


def node_of(nodes: Nodes, path: str) -> NodeSnapshot:
    node = nodes.get(path)
    assert isinstance(node, NodeSnapshot), node
    return node


def groups(*paths: str) -> Nodes:
    return Nodes({path: NodeSnapshot(at, path) for at, path in enumerate(paths)})


@given(strategies.nodes())
@pytest.mark.rule("I60", "I217")
def test_nodes_come_back(nodes: Nodes) -> None:
    data = written(nodes)
    read = opened(data)
    assert list(read) == list(nodes)
    assert {path: read.get(path) for path in read} == {path: nodes.get(path) for path in nodes}
    assert read == nodes
    assert written(read) == data
    assert written(Nodes({path: node_of(read, path) for path in read})) == data
    assert len(read) == len(nodes)
    for path in read:
        assert path in read
        assert read.is_array(path) is nodes.is_array(path) is (node_of(nodes, path).array is not None)
    assert read.highest_id() == nodes.highest_id() == max((node_of(nodes, path).id for path in nodes), default=0)


@given(strategies.nodes(least=1), strategies.nodes(), st.data())
def test_changes_copy_unchanged_nodes(old: Nodes, new: Nodes, data: st.DataObject) -> None:
    removed = data.draw(st.lists(st.sampled_from(list(old)), max_size=3))
    changes: dict[str, NodeSnapshot | None] = {**{path: node_of(new, path) for path in new}, **dict.fromkeys(removed)}
    before = written(old)
    read = opened(before)
    changed = read.changed(changes)
    plain = {**{path: node_of(old, path) for path in old}, **changes}
    expected = Nodes({path: node for path, node in plain.items() if node is not None})
    assert changed == expected
    assert written(changed) == written(expected)
    assert written(read) == before, "the nodes before are as they were"


@given(st.permutations(ORDER))
def test_nodes_are_ordered_by_the_components_of_their_paths(paths: list[str]) -> None:
    nodes = groups(*paths)
    assert list(nodes) == ORDER
    assert list(opened(written(nodes))) == ORDER
    assert list(of(*[documents.group(path) for path in paths])) == ORDER


@given(st.lists(strategies.paths, max_size=12, unique=True), strategies.paths)
def test_a_subtree_has_the_nodes_below_a_path(paths: list[str], base: str) -> None:
    nodes = groups(*paths)
    beneath = [path for path in nodes if base in {path, "/"} or path.startswith(base + "/")]
    assert nodes.subtree(base) == beneath


def test_subtrees_of_known_paths() -> None:
    nodes = groups(*ORDER)
    assert nodes.subtree("/a") == ["/a", "/a/b", "/a/b/c"]
    assert nodes.subtree("/a/b") == ["/a/b", "/a/b/c"]
    assert nodes.subtree("/") == ORDER
    assert nodes.subtree("/b") == []


def test_a_map_in_any_order_and_with_a_path_twice_is_read() -> None:
    nodes = opened(
        [("/b", documents.group("/b", 1)), ("/a", documents.array("/a", 2)), ("/b", documents.group("/b", 3))]
    )
    assert list(nodes) == ["/a", "/b"]
    assert node_of(nodes, "/b").id == 3
    assert nodes.highest_id() == 3
    assert list(opened(written(nodes))) == ["/a", "/b"]


def test_nodes_with_named_fields_and_wide_headers_are_read() -> None:
    values = documents.array("/a", 2)
    plain = node_of(of(values), "/a")
    metadata = documents.named(
        "metadata", documents.metadata(codecs=[documents.named("codec", ["bytes", {"endian": "little"}])])
    )
    reference = documents.named("manifest", [documents.ID.lower(), []])
    named = documents.named(
        "node", [Wide(2), Wide("/a"), {"Inline": Wide({})}, {"Array": [metadata, Wide([reference])]}]
    )
    nodes = opened([(Wide("/a"), named)])
    assert node_of(nodes, "/a") == plain
    assert nodes.is_array("/a") is True
    assert nodes.highest_id() == 2


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        (None, None),
        ({"Inline": {}}, {}),
        ({"Inline": {"z": 1, "a": [2.5, None, {"x": True}]}}, {"z": 1, "a": [2.5, None, {"x": True}]}),
        ({"Ref": [documents.ID, 7]}, AttributesReference(decode_id(documents.ID), 7)),
        ({"Ref": {"location": 7, "object_id": documents.ID}}, AttributesReference(decode_id(documents.ID), 7)),
    ],
)
@pytest.mark.rule("I62", "I246")
def test_attributes_lie_in_the_snapshot_or_in_a_file(attributes: object, expected: object) -> None:
    node = node_of(of(documents.group("/", attributes=attributes)), "/")
    assert node.attributes == expected
    again = node_of(opened(written(Nodes({"/": node}))), "/")
    assert again == node
    if isinstance(expected, dict):
        assert list(again.attributes or {}) == list(expected), "members stay in their order"


def test_attributes_keep_nan_and_infinity() -> None:
    nodes = of(documents.group("/", attributes={"Inline": {"x": float("nan")}}))
    attributes = node_of(nodes, "/").attributes
    assert isinstance(attributes, dict)
    assert str(attributes["x"]) == "nan"


def test_a_node_may_lack_its_attributes_when_its_fields_are_named() -> None:
    nodes = opened([("/", {"node_data": {"Group": None}, "path": "/", "id": 1})])
    assert node_of(nodes, "/") == NodeSnapshot(1, "/", None, None)


@pytest.mark.rule("I61", "I258")
def test_an_array_may_have_several_manifests_with_extents() -> None:
    values = documents.array("/a")
    references = [[documents.ID, [[0, 1], [2, 3]]], [documents.OTHER, []]]
    values[3] = {"Array": [documents.metadata(), references]}
    node = node_of(of(values), "/a")
    assert node.array is not None
    assert node.array.manifests == (
        ManifestReference(decode_id(documents.ID), ((0, 1), (2, 3))),
        ManifestReference(decode_id(documents.OTHER)),
    )
    assert node_of(opened(written(Nodes({"/a": node}))), "/a") == node


BAD = {
    "data type": documents.array("/bad", data_type="decimal"),
    "chunk length 0": documents.array("/bad", chunk_shape=[5, 0]),
    "no fill value": documents.array("/bad", fill_value=None),
    "fill value out of range": documents.array("/bad", data_type="int8", fill_value={"Int8": 200}),
    "another path": [2, "/good", None, "Group"],
    "a path in bytes": [2, b"/bad", None, "Group"],
    "an id of text": ["2", "/bad", None, "Group"],
    "an id of another version": ["0G40R40M30E20", "/bad", None, "Group"],
    "an id beyond 32 bits": [2**32, "/bad", None, "Group"],
    "an id below 0": [-1, "/bad", None, "Group"],
    "too few fields": [2, "/bad", None],
    "too many fields": [2, "/bad", None, "Group", None],
    "no struct": "Group",
    "nil": None,
    "an unknown kind": [2, "/bad", None, "Table"],
    "an unknown kind with data": [2, "/bad", None, {"Table": 1}],
    "an array without data": [2, "/bad", None, "Array"],
    "a group with data": [2, "/bad", None, {"Group": 1}],
    "an array with three parts": [2, "/bad", None, {"Array": [documents.metadata(), [], 1]}],
    "unknown attributes": [2, "/bad", {"Other": {}}, "Group"],
    "attributes of a list": [2, "/bad", {"Inline": []}, "Group"],
    "attributes without data": [2, "/bad", "Inline", "Group"],
    "binary attributes": [2, "/bad", {"Inline": {"x": b"x"}}, "Group"],
    "deep attributes": [2, "/bad", {"Inline": {"x": Raw(b"\x91" * 300 + b"\xc0")}}, "Group"],
    "an id that climbs": [2, "/bad", {"Ref": ["../../../../etc/pass", 0]}, "Group"],
    "a manifest that climbs": [2, "/bad", None, {"Array": [documents.metadata(), [["../../../../etc/pass", []]]]}],
    "a manifest in bytes": [2, "/bad", None, {"Array": [documents.metadata(), [[b"x" * 12, []]]]}],
    "a path that is no UTF-8": [2, Raw(b"\xa4/\xff\xff\xff"), None, "Group"],
}


@pytest.mark.parametrize("node", BAD.values(), ids=BAD)
def test_a_damaged_node_does_not_hide_others(node: object) -> None:
    nodes = opened([("/", documents.group("/", 1)), ("/bad", node), ("/good", documents.array("/good", 9))])
    broken = nodes.get("/bad")
    assert isinstance(broken, BrokenNode)
    assert broken.error.key == KEY
    assert broken.error.path == "/bad"
    assert ", at byte " in broken.error.message
    assert isinstance(nodes.get("/good"), NodeSnapshot)
    assert nodes.highest_id() == 9
    assert nodes.is_array("/good") is True
    assert nodes.is_array("/bad") in {True, False, None}
    copied = nodes.changed({"/new": NodeSnapshot(10, "/new")})
    assert isinstance(opened(written(copied)).get("/bad"), BrokenNode), "it is kept as it is"
    assert list(opened(written(copied.changed({"/bad": None})))) == ["/", "/good", "/new"]


@pytest.mark.parametrize("path", ["", "a", "a/b", "//", "/a/", "/a//b", "/.", "/..", "/a/../b", "/a/./b"])
def test_paths_that_no_node_has(path: str) -> None:
    node = of(documents.group(path)).get(path)
    assert isinstance(node, BrokenNode)
    assert "path of a node must" in node.error.message
    assert node.id == 1
    with pytest.raises(InvalidInputError, match="path of a node must"):
        written(Nodes({path: NodeSnapshot(1, path)}))


def test_an_id_that_cannot_be_read_is_none() -> None:
    broken = of(["2", "/a", None, "Group"]).get("/a")
    assert isinstance(broken, BrokenNode)
    assert broken.id is None


def test_a_manifest_that_is_listed_twice_is_refused() -> None:
    node = documents.array("/a")
    node[-1] = {"Array": [documents.metadata(), [[documents.ID, []], [documents.ID, []]]]}
    broken = of(node).get("/a")
    assert isinstance(broken, BrokenNode)
    assert "found one twice" in str(broken.error)


@pytest.mark.parametrize(
    "pairs",
    [[(1, documents.group("/"))], [(b"/", documents.group("/"))], [(Raw(b"\xa1\xff"), None)], [("/", Raw(b"\xc1"))]],
)
def test_a_map_without_paths_is_refused(pairs: list[tuple[object, object]]) -> None:
    with pytest.raises(FormatError) as caught:
        opened(pairs)
    assert caught.value.key == KEY


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (NodeSnapshot(-1, "/a"), "id of a node"),
        (NodeSnapshot(2**32, "/a"), "id of a node"),
        (NodeSnapshot(1, "/a", {"x": {1}}), "must be JSON"),  # type: ignore[dict-item]
        (NodeSnapshot(1, "/a", AttributesReference(b"x", 0)), "12 bytes"),
        (NodeSnapshot(1, "/a", AttributesReference(bytes(12), 2**32)), "location of attributes"),
    ],
)
def test_nodes_that_the_format_cannot_hold_are_not_written(node: NodeSnapshot, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message) as caught:
        written(Nodes({"/a": node}))
    assert caught.value.path == "/a"


def test_an_array_that_cannot_be_written_is_named() -> None:
    good = node_of(of(documents.array("/a")), "/a")
    assert good.array is not None
    bad = good._replace(array=ArrayData(good.array.metadata._replace(shape=(2**64, 1)), ()))
    with pytest.raises(InvalidInputError, match=r"2\^64.*'/a'") as caught:
        written(Nodes({"/a": bad}))
    assert caught.value.path == "/a"
    reference = ManifestReference(bytes(12), ((1,), (2**32,)))
    with pytest.raises(InvalidInputError, match="extents of a manifest must be from 0"):
        written(Nodes({"/a": good._replace(array=ArrayData(good.array.metadata, (reference,)))}))


def test_a_node_is_stored_under_its_own_path() -> None:
    with pytest.raises(InvalidInputError, match="cannot be stored at '/b'"):
        Nodes({"/b": NodeSnapshot(1, "/a")})


@given(strategies.nodes(), strategies.nodes())
def test_nodes_pickle(old: Nodes, new: Nodes) -> None:
    nodes = opened(written(old)).changed({path: node_of(new, path) for path in new})
    again = pickle.loads(pickle.dumps(nodes))
    assert again == nodes
    assert written(again) == written(nodes)


def alone(nodes: Nodes, path: str) -> bytes:
    """The bytes of one node."""
    return written(nodes.changed({other: None for other in nodes if other != path}))


@given(strategies.nodes(), strategies.nodes(), st.sampled_from([1, 50, 2**22]), st.data())
def test_differences_between_nodes(old: Nodes, other: Nodes, piece: int, data: st.DataObject) -> None:
    paths = data.draw(st.lists(st.sampled_from([*old, *other]), unique=True)) if old or other else []
    new = old.changed({path: node_of(other, path) if path in other else None for path in paths})
    differing = {
        path for path in {*old, *new} if path not in old or path not in new or alone(old, path) != alone(new, path)
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_module, "_PIECE", piece)
        read = opened(written(old)), opened(written(new))
        assert sorted(read[0].differing(read[1])) == sorted(read[1].differing(read[0])) == sorted(differing)
    # a different object in memory may have another value
    changed = opened(written(old)).changed({path: node_of(other, path) if path in other else None for path in paths})
    for base in (old, read[0]):
        assert differing <= set(base.differing(changed)) <= {*old, *new}
    assert set(read[0].differing(changed)) <= set(paths)
    assert changed.differing(changed) == read[0].differing(read[0]) == []


def test_differences_between_nodes_in_another_order() -> None:
    nodes = [[at, f"/{at}", None, "Group"] for at in range(9)]
    changed = [*nodes[:4], [4, "/4", {"Inline": {"a": 1}}, "Group"], *nodes[5:]]
    assert of(*nodes).differing(of(*reversed(changed))) == ["/4"]
    assert of(*nodes).differing(of(*changed[3:], *changed[:3])) == ["/4"]


def test_ids_are_known_without_decoding() -> None:
    nodes = opened([("/a", [7, "/a", None, "Nothing"]), ("/b", {"id": 8}), ("/c", [])]).changed(
        {"/d": NodeSnapshot(9, "/d")}
    )
    assert [nodes.id_of(path) for path in ("/a", "/b", "/c", "/d", "/e")] == [7, None, None, 9, None]


def test_missing_nodes() -> None:
    nodes: Nodes = groups("/a")
    absent: Node | None = nodes.get("/b")
    assert absent is None
    assert "/b" not in nodes
    assert Nodes().highest_id() == 0
    assert nodes != 5
    assert nodes != groups("/b")
    assert repr(nodes) == "<Nodes: 1>"


@given(strategies.nodes(least=1), st.lists(strategies.nodes(), max_size=3), st.data())
def test_spliced_bytes_equal_gathered_bytes(old: Nodes, rounds: list[Nodes], data: st.DataObject) -> None:
    """A series of snapshots, each encoded over the bytes of the previous one; for comparison, the same nodes copied one by one."""
    nodes = opened(written(old))
    for new in rounds:
        removed = data.draw(st.lists(st.sampled_from([*nodes, "/not there"]), max_size=3))
        changes = {**{path: node_of(new, path) for path in new}, **dict.fromkeys(removed)}
        changed = nodes.changed(changes)
        gathered = bytearray()
        write_map(gathered, len(changed))
        _gather(gathered, changed, changed.stored)
        assert encode_nodes(changed) == bytes(gathered)
        assert written(changed) == bytes(gathered)
        nodes = index_nodes(changed, b"before" + encode_nodes(changed), 6, KEY)
        assert nodes == changed == opened(bytes(gathered))
        assert list(nodes) == sorted(nodes, key=lambda path: path.split("/")[1:] if path != "/" else [""])
        assert written(nodes) == bytes(gathered)
        assert len(nodes) == len(changed) == len(list(nodes))
        assert sorted(nodes.differing(opened(bytes(gathered)))) == []
        for path in nodes:
            number = node_of(nodes, path).id
            assert nodes.id_of(path) == changed.id_of(path) == number
        assert nodes.highest_id() == changed.highest_id()
        nodes = pickle.loads(pickle.dumps(nodes))


@given(strategies.nodes(), st.data())
def test_nodes_in_any_order_are_written_in_theirs(old: Nodes, data: st.DataObject) -> None:
    paths = data.draw(st.permutations(list(old)))
    entries = [written(Nodes({path: node_of(old, path)}))[1:] for path in paths]
    out = bytearray()
    write_map(out, len(paths))
    nodes = opened(bytes(out) + b"".join(entries))
    assert nodes == old
    assert written(nodes) == written(old)
    gone = data.draw(st.sets(st.sampled_from(paths)) if paths else st.just(set[str]()))
    left = nodes.changed(dict.fromkeys(gone))
    assert written(left) == written(Nodes({path: node_of(old, path) for path in old if path not in gone}))


@given(strategies.nodes())
def test_equal_documents_have_equal_bytes(nodes: Nodes) -> None:
    read = opened(written(nodes))
    for path in read:
        node = node_of(read, path)
        alone = opened(written(Nodes({"/other": node._replace(id=0, path="/other")})))
        document = read.document(path)
        assert document is not None
        assert document == alone.document("/other")
        assert (document[1] == b"") is (node.array is None)
        assert read_attributes(Reader(document[0], None)) == node.attributes
        assert read.changed({path: node}).document(path) is None
    assert read.document("/not there") is None


@pytest.mark.parametrize("node", BAD.values(), ids=BAD)
def test_a_broken_node_has_no_document_that_could_be_read(node: object) -> None:
    nodes = opened([("/bad", node)])
    document = nodes.document("/bad")
    if document is not None:  # then the attributes or the metadata are invalid
        with pytest.raises(FormatError):
            read_attributes(Reader(document[0], None))
            read_metadata(Reader(document[1], None))


@pytest.mark.parametrize("path", ["/a\0", "/a\0b", "/a/\0", "/\0\0/a", "/\1", "/a\1b"])
def test_names_with_the_lowest_characters_have_their_place(path: str) -> None:
    paths = ["/", "/a", "/a/b", "/a/b/c", "/a ", "/a/\1", "/b", path]
    by_components = sorted(paths, key=lambda path: path.split("/")[1:] if path != "/" else [""])
    assert list(groups(*paths)) == by_components
    assert groups(*paths).subtree("/a") == [at for at in by_components if at == "/a" or at.startswith("/a/")]


@given(strategies.nodes(least=1), st.booleans())
def test_an_array_with_other_manifests_is_known_without_decoding_it(old: Nodes, new: bool) -> None:
    nodes = opened(written(old))
    for path in nodes:
        node = node_of(nodes, path)
        if node.array is None:
            continue
        extents = ((0, 300), (7, 2**32 - 1), (4,))
        array = node.array._replace(manifests=(ManifestReference(decode_id(documents.OTHER), extents),))
        attributes = {"who": "me"} if new else node.attributes
        changed = nodes.changed({path: node._replace(array=array, attributes=attributes)})
        after = index_nodes(changed, encode_nodes(changed), 0, KEY)
        found, read = node_of(after, path), node_of(opened(written(changed)), path)
        assert found == read == changed.get(path)
        assert found.array is not None and found.array.manifests[0].extents == extents
        assert new or found is changed.get(path) or len(list(nodes)) > 16
        assert found.attributes is not attributes or not new, "what others have is not kept"


@given(strategies.nodes(least=1), st.integers(0, 2**64 - 1), st.booleans())
def test_an_array_that_grew_is_known_and_its_other_metadata_is_copied(old: Nodes, length: int, again: bool) -> None:
    nodes = opened(written(old))
    for path in nodes:
        node = node_of(nodes, path)
        if node.array is None:
            continue
        metadata = node.array.metadata.with_shape(tuple(length for _ in node.array.metadata.shape))
        changed = nodes.changed({path: node._replace(array=node.array._replace(metadata=metadata))})
        after = index_nodes(changed, encode_nodes(changed), 0, KEY)
        assert node_of(after, path) == node_of(opened(written(changed)), path) == changed.get(path)
        assert node_of(after, path) is changed.get(path) or len(list(nodes)) > 16
        assert written(changed) == written(Nodes({at: node_of(changed, at) for at in changed})), "as if all was encoded"
        if again:
            nodes = after


def test_metadata_that_is_equal_only_in_python_is_written_again() -> None:
    one, other = NamedConfiguration("x", {"level": 1}), NamedConfiguration("x", {"level": True})
    metadata = ZarrArrayMetadata((4,), "int8", (2,), "Slash", 0, (one,))
    nodes = opened(written(Nodes({"/a": NodeSnapshot(1, "/a", None, ArrayData(metadata))})))
    assert nodes.is_array("/a") and node_of(nodes, "/a").array is not None
    new = NodeSnapshot(1, "/a", None, ArrayData(metadata._replace(shape=(5,), codecs=(other,))))
    assert b"\xa5level\xc3" in written(nodes.changed({"/a": new}))


def test_lengths_in_a_longer_form_are_written_in_the_shortest() -> None:
    metadata = ZarrArrayMetadata((4,), "int8", (2,), "Slash", 0, ())
    data = written(Nodes({"/a": NodeSnapshot(1, "/a", None, ArrayData(metadata))}))
    assert data.count(b"\x98\x91\x04") == 1
    nodes = opened(data.replace(b"\x98\x91\x04", b"\x98\x91\xcc\x04"))
    node = node_of(nodes, "/a")
    assert node.array is not None and node.array.metadata.shape == (4,)
    grown = nodes.changed(
        {"/a": node._replace(array=node.array._replace(metadata=node.array.metadata.with_shape((5,))))}
    )
    assert written(grown) == data.replace(b"\x98\x91\x04", b"\x98\x91\x05")
