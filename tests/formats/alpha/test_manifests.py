"""Manifests between files and columns, and the look-up of references; the kernel against tests/formats/manifest_reference.py."""

from __future__ import annotations

import pickle
import tarfile
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import external_data
from tests.formats import manifest_reference as reference
from tests.formats.manifest_reference import Inline, Model, Packed, Pairs, Payload, Ref, Virtual, pack

from frazil.errors import FormatError, InvalidInputError
from frazil.formats import manifests
from frazil.formats.alpha.manifest_flags import read_flags, write_flags
from frazil.formats.alpha.manifests import decode_manifest, encode_manifest
from frazil.formats.manifests import Manifest

ARCHIVES = ["icechunk-alpha-repo.tar.gz", "icechunk-alpha-varied.tar.gz"]

positions = st.one_of(st.integers(0, 200), st.integers(0, 2**62 - 1))
payloads: st.SearchStrategy[Payload] = st.one_of(
    st.builds(Inline, st.one_of(st.binary(max_size=40), st.just(bytes(70000)))),
    st.builds(Ref, st.binary(min_size=12, max_size=12), positions, positions),
    st.builds(
        Virtual, st.one_of(st.sampled_from(["s3://a/b", "file:///c", "é" * 40]), st.text()), positions, positions
    ),
)
indices = st.one_of(st.integers(0, 3), st.sampled_from([127, 128, 255, 256, 65535, 65536, 2**32 - 1]))
keys = st.tuples(st.one_of(st.integers(0, 3), st.integers(0, 2**32 - 1)), st.lists(indices, max_size=4).map(tuple))
models = st.dictionaries(keys, payloads, max_size=20)
flags = st.sampled_from([b"\x80", b"\x81\xa1a\x93\x01\xc0\xcb\0\0\0\0\0\0\0\0", b"\x81\xd9\x01b\xde\0\0"])

SMALL: Model = {
    (3, (0, 1)): Inline(b"ab"),
    (3, (1, 0)): Ref(bytes(range(12)), 5, 100),
    (4, ()): Virtual("file:x", 128, 1),
}


def model_of(manifest: Manifest) -> Model:
    """The references, one by one."""
    model: Model = {}
    for row, node in enumerate(manifest.nodes.tolist()):
        key = node, tuple(manifest.coordinates[manifest.starts[row] : manifest.starts[row + 1]].tolist())
        offset, length = int(manifest.offsets[row]), int(manifest.lengths[row])
        assert key not in model
        assert (manifest.kinds[row] == manifests.VIRTUAL) == (manifest.locations[row] >= 0)
        assert manifest.kinds[row] == manifests.NATIVE or not manifest.ids[row].any()
        if manifest.kinds[row] == manifests.INLINE:
            model[key] = Inline(manifest.inline[offset : offset + length].tobytes())
        elif manifest.kinds[row] == manifests.NATIVE:
            model[key] = Ref(manifest.ids[row].tobytes(), offset, length)
        else:
            model[key] = Virtual(manifest.location(int(manifest.locations[row])), offset, length)
    return model


def again(manifest: Manifest) -> bytes:
    return bytes(memoryview(encode_manifest(manifest)))


@pytest.mark.rule("I260", "I264")
@pytest.mark.parametrize("name", ARCHIVES)
def test_files_of_the_library_are_written_as_they_were(name: str) -> None:
    found = 0
    with tarfile.open(external_data.data(name)) as archive:
        for member in archive.getmembers():
            if member.isfile() and "/manifests/" in member.name:
                file = archive.extractfile(member)
                assert file is not None
                data = file.read()
                manifest = decode_manifest(data, key=member.name)
                assert again(manifest) == data
                assert model_of(manifest) == reference.decode(data)[1]
                assert again(manifests.order_manifest(manifest)) == data
                found += 1
    assert found >= 4


@pytest.mark.rule("I257", "I264", "I267")
@given(models, flags)
def test_references_come_back(model: Model, flags: bytes) -> None:
    data = reference.encode(model, flags)
    manifest = decode_manifest(data)
    assert model_of(manifest) == model
    assert (write_flags(manifest.flags, manifest.checks), manifest.size) == (flags, len(model))
    assert again(manifest) == data
    assert len(set(manifest.all_locations())) == len(manifest.all_locations())


def test_an_empty_manifest() -> None:
    manifest = decode_manifest(b"\x93\x00\x80\x80")
    assert manifest.size == 0
    assert again(manifest) == b"\x93\x00\x80\x80"


def loose(draw: Any, value: Any) -> Packed:
    """MessagePack of a value, in an unusual but valid form."""
    if isinstance(value, Packed):
        return value
    if isinstance(value, int):
        widths = [width for width in (0, 1, 2, 4, 8) if not width or value < 256**width]
        signed = [Packed(bytes([0xD3]) + value.to_bytes(8, "big"))] if value < 2**63 else []
        return draw(st.sampled_from([Packed(reference.number(value, width)) for width in widths] + signed))
    if isinstance(value, Pairs):
        items = b"".join(loose(draw, key) + loose(draw, item) for key, item in value)
        wide = bytes([0xDF]) + len(value).to_bytes(4, "big")
        return Packed(
            (wide if draw(st.booleans()) else pack(Pairs([(0, 0)] * len(value)))[: -2 * len(value) or None]) + items
        )
    if isinstance(value, str | bytes):
        text = value.encode() if isinstance(value, str) else value
        wide = bytes([0xDB if isinstance(value, str) else 0xC6]) + len(text).to_bytes(4, "big") + text
        return Packed(wide if draw(st.booleans()) else pack(value))
    return Packed(bytes([0xDD]) + len(value).to_bytes(4, "big") + b"".join(loose(draw, item) for item in value))


def loose_struct(draw: Any, kind: str, values: list[Any]) -> Any:
    """A struct as an array, or as a map in any order, with unknown entries."""
    if draw(st.booleans()):
        return values
    named: list[tuple[Any, Any]] = list(zip(reference.STRUCTS[kind], values, strict=True))
    return Pairs(draw(st.permutations([*named, ("other", [1, "x"]), ("other", Pairs([(5, "y")]))])))


def loose_payload(draw: Any, value: Payload) -> Pairs:
    match value:
        case Inline(data):
            return Pairs([("Inline", data)])
        case Ref(id, offset, length):
            text = reference.encode_id(id).translate(str.maketrans("01", "oL")).lower()[:19] + "0"
            spare = reference.ALPHABET[reference.ALPHABET.index(reference.encode_id(id)[19]) | 5]
            text = draw(st.sampled_from([reference.encode_id(id), text[:19] + spare, text[:19].upper() + spare]))
            return Pairs([("Ref", loose_struct(draw, "ref", [text, offset, length]))])
        case Virtual(location, offset, length):
            where = Pairs([("Absolute", location)])
            return Pairs([("Virtual", loose_struct(draw, "virtual", [where, offset, length]))])


@pytest.mark.rule("I260")
@given(st.data(), st.lists(st.tuples(keys, payloads), max_size=12))
def test_harmless_deviations_are_read(data: st.DataObject, entries: list[tuple[Any, Payload]]) -> None:
    chunks = Pairs((key, loose_payload(data.draw, value)) for key, value in entries)
    file = loose(data.draw, loose_struct(data.draw, "manifest", [0, Packed(b"\x80"), chunks]))
    model = dict(entries)  # of equal keys, the last counts
    manifest = decode_manifest(file)
    assert model_of(manifest) == model
    assert again(manifest) == reference.encode(model)
    assert reference.decode(file)[1] == model


@pytest.mark.rule("I270")
@given(models, st.data())
def test_broken_files_are_refused_as_the_reference_does(model: Model, data: st.DataObject) -> None:
    file = bytearray(reference.encode(model))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(file)))
        cut = data.draw(st.integers(0, 3))
        file[at : at + cut] = data.draw(st.binary(max_size=3))
    try:
        expected = reference.decode(bytes(file))[1]
    except reference.Refused:
        with pytest.raises(FormatError, match=r"byte [0-9]+|is empty"):
            decode_manifest(bytes(file))
    else:
        assert model_of(decode_manifest(bytes(file))) == expected


def test_a_manifest_cut_at_any_byte_is_an_error() -> None:
    data = reference.encode(SMALL)
    for end in range(1, len(data)):
        with pytest.raises(FormatError, match=r"byte [0-9]+") as caught:
            decode_manifest(data[:end], key="manifests/X")
        assert caught.value.key == "manifests/X"
    with pytest.raises(FormatError, match="the file is empty"):
        decode_manifest(b"")
    with pytest.raises(FormatError, match=f"1 bytes follow the manifest, at byte {len(data)}"):
        decode_manifest(data + b"\0")


@given(st.binary(max_size=60))
def test_junk_is_refused(junk: bytes) -> None:
    for data in (junk, b"\x93\x00\x80" + junk, b"\x93\x00\x80\x81\x92\x01\x90\x81" + junk):
        try:
            expected = reference.decode(data)[1]
        except reference.Refused:
            with pytest.raises(FormatError):
                decode_manifest(data)
        else:
            assert model_of(decode_manifest(data)) == expected


@pytest.mark.rule("I265")
@pytest.mark.parametrize("version", [1, 9, 65535])
@pytest.mark.parametrize("named", [False, True])
def test_other_versions_are_refused_by_number(version: int, *, named: bool) -> None:
    values = [version, Packed(b"\x80"), "what another version has here"]
    struct = Pairs(reversed(list(zip(reference.STRUCTS["manifest"], values, strict=True)))) if named else values
    with pytest.raises(FormatError, match=f"version {version} of the manifest format"):
        decode_manifest(pack(struct))


@pytest.mark.parametrize("start", ["ICE🧊CHUNK".encode(), b"\x28\xb5\x2f\xfd"])
def test_files_of_later_formats_are_errors(start: bytes) -> None:
    with pytest.raises(FormatError, match="written by Icechunk"):
        decode_manifest(memoryview(start + bytes(40)))


@pytest.mark.parametrize(
    "data",
    [
        b"\x93\x00\x80\xdf\xff\xff\xff\xff\x92\x01",
        b"\x93\x00\x80\x81\x92\x01\xdd\xff\xff\xff\xff\x00",
        b"\x93\x00\x80\x81\x92\x01\x90\x81\xa6Inline\xc6\xff\xff\xff\xff",
        b"\x93\x00\x81\xa1a\xdb\xff\xff\xff\xff\x80",
        b"\x93\x00\x81\xa1a" + b"\x91" * 10**6,
        b"\x93\x00\x81\xa1a" + b"\xdd\xff\xff\xff\xff" * 10**5,
        b"\x93\x00\x80\xdf\x00\x0f\x00\x00" + b"\x92\x00\xdd\xff\xff\xff\xff" * 10**6,
    ],
)
def test_bombs_are_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        decode_manifest(data)


@pytest.mark.rule("I266")
def test_deeply_nested_flags_of_a_manifest_are_kept() -> None:
    flags = b"\x81\xa1a" + b"\x91" * 10**6 + b"\xc0"
    manifest = decode_manifest(b"\x93\x00" + flags + b"\x80")
    assert manifest.flags == {b"\xa1a": flags[3:]}
    assert again(manifest) == b"\x93\x00" + flags + b"\x80"


@pytest.mark.rule("I267")
def test_sums_beyond_63_bits_are_refused() -> None:
    for offset, length in ((2**63, 0), (2**63 - 1, 1), (2**64 - 1, 2**64 - 1)):
        with pytest.raises(FormatError):
            decode_manifest(reference.encode({(1, ()): Ref(bytes(12), offset, length)}))
    assert decode_manifest(reference.encode({(1, ()): Ref(bytes(12), 2**63 - 1, 0)})).size == 1


def test_columns_are_frozen_and_pickle() -> None:
    manifest = decode_manifest(reference.encode(SMALL))
    with pytest.raises(ValueError, match="read-only"):
        manifest.offsets[0] = 3
    assert model_of(pickle.loads(pickle.dumps(manifest))) == SMALL


# --- writing ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"flags": {b"": b""}},
        {"flags": {b"\x01": b"\x02"}},
        {"nodes": np.zeros(3, np.int64)},
        {"nodes": np.zeros(2, np.uint32)},
        {"ids": np.zeros(36, np.uint8)},
        {"kinds": np.array([0, 1, 3], np.uint8)},
        {"coordinates": np.array([0, 1, -1, 0])},
        {"coordinates": np.array([0, 2**32, 1, 0])},
        {"starts": np.array([0, 2, 4, 5])},
        {"starts": np.array([0, 4, 2, 4])},
        {"offsets": np.array([1, 5, 128])},
        {"offsets": np.array([0, -5, 128])},
        {"lengths": np.array([2, 2**63 - 1, 1])},
        {"lengths": np.array([2, 100, -1])},
        {"locations": np.array([-1, -1, -1], np.int32)},
        {"locations": np.array([-1, -1, 1], np.int32)},
        {"location_text": np.full(6, 255, np.uint8)},
        {"location_starts": np.zeros(0, np.int64)},
        {"location_starts": np.array([0, 7])},
    ],
)
def test_columns_that_do_not_fit_are_refused(changes: dict[str, Any]) -> None:
    manifest = decode_manifest(reference.encode(SMALL))
    with pytest.raises(InvalidInputError):
        encode_manifest(manifest._replace(**changes))


def test_strided_columns_are_written() -> None:
    manifest = decode_manifest(reference.encode(SMALL))
    offsets = np.repeat(manifest.offsets, 2)[::2]
    assert again(manifest._replace(offsets=offsets)) == reference.encode(SMALL)


@pytest.mark.rule("I258")
@given(st.lists(models, min_size=1, max_size=4), flags)
def test_of_joined_manifests_the_last_counts(parts: list[Model], flags: bytes) -> None:
    joined = manifests.join_manifests(
        [decode_manifest(reference.encode(part)) for part in parts], flags=read_flags(flags)[0], checks={}
    )
    model = {key: value for part in parts for key, value in part.items()}
    assert model_of(joined) == model
    assert again(joined) == reference.encode(model, flags)


@given(models, st.data())
def test_rows_are_selected_and_ordered(model: Model, data: st.DataObject) -> None:
    manifest = decode_manifest(reference.encode(model))
    rows = data.draw(st.permutations(range(len(model))))[: data.draw(st.integers(0, 20))]
    chosen = manifests.select_rows(manifest, np.array(rows, np.int64))
    expected = {sorted(model)[row]: model[sorted(model)[row]] for row in rows}
    assert model_of(chosen) == expected
    assert list(model_of(chosen)) == list(expected)
    assert list(model_of(manifests.order_manifest(chosen))) == sorted(expected)
    assert again(chosen) == reference.encode(expected)


@pytest.mark.rule("I279", "I280", "I281")
def test_a_manifest_of_one_node() -> None:
    coordinates = np.array([[1, 0], [0, 1], [0, 0]])
    manifest = manifests.node_manifest(
        7,
        coordinates,
        np.array([manifests.INLINE, manifests.NATIVE, manifests.VIRTUAL], np.uint8),
        np.concatenate([np.zeros((1, 12), np.uint8), np.full((1, 12), 9, np.uint8), np.zeros((1, 12), np.uint8)]),
        np.array([1, 10, 20]),
        np.array([2, 11, 21]),
        inline=b"abcd",
        locations=np.array([-1, -1, 1], np.int32),
        names=["s3://unused", "s3://ü"],
    )
    assert model_of(decode_manifest(encode_manifest(manifest))) == {
        (7, (1, 0)): Inline(b"bc"),
        (7, (0, 1)): Ref(b"\x09" * 12, 10, 11),
        (7, (0, 0)): Virtual("s3://ü", 20, 21),
    }
    with pytest.raises(InvalidInputError):
        manifests.node_manifest(2**32, coordinates, *manifest[4:8])


# --- look-ups -----------------------------------------------------------------------------------------------------------------------------


@given(models, st.integers(0, 3), st.integers(0, 4))
def test_rows_of_an_array(model: Model, node: int, rank: int) -> None:
    manifest = decode_manifest(reference.encode(model))
    ordered = sorted(model)
    found = manifests.rows_of_node(manifest, node)
    assert [key[0] for key in ordered[found]] == [node] * sum(key[0] == node for key in ordered)
    rows, coordinates = manifests.rows_of_array(manifest, node, rank)
    assert [ordered[row] for row in rows.tolist()] == [(node, tuple(one)) for one in coordinates.tolist()]
    assert len(rows) == sum(key[0] == node and len(key[1]) == rank for key in ordered)


def test_a_manifest_for_the_cache_cannot_be_changed_and_keeps_no_other_memory() -> None:
    manifest = decode_manifest(reference.encode(SMALL))
    assert any(column.base is not None for column in manifests.columns_of(manifest))
    compact = manifests.compact(manifest)
    for column, original in zip(manifests.columns_of(compact), manifests.columns_of(manifest), strict=True):
        assert column.base is None
        assert not column.flags.writeable
        assert column.dtype == original.dtype
        assert column.tolist() == original.tolist()
    assert compact.flags == manifest.flags
    assert compact.checks == manifest.checks
    assert manifests.nbytes_of(compact) == sum(column.nbytes for column in compact[1:-1])


@pytest.mark.parametrize("node", [-1, 0, 2**32, 2**70])
def test_absent_nodes_have_no_rows(node: int) -> None:
    manifest = decode_manifest(reference.encode(SMALL))
    assert manifests.rows_of_node(manifest, node) == slice(0, 0)
    assert manifests.rows_of_array(manifest, node, 2)[1].shape == (0, 2)
