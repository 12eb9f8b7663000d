"""Random values of every part of snapshot files."""

from __future__ import annotations

import struct

from hypothesis import strategies as st

from frazil.formats.alpha.snapshots import FileInfo, SnapshotFile
from frazil.formats.alpha.zarr_metadata import CHUNK_KEY_ENCODINGS, NamedConfiguration, ZarrArrayMetadata
from frazil.formats.nodes import ArrayData, AttributesReference, ManifestReference, Nodes, NodeSnapshot
from frazil.formats.snapshots import SnapshotInfo

U16, U32, U64 = (st.integers(0, 2**bits - 1) for bits in (16, 32, 64))

ids = st.binary(min_size=12, max_size=12)
texts = st.text(max_size=40)
json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(texts, json, max_size=4)
times = st.integers(-62167219200 * 10**9, 253402300800 * 10**9 - 1)
names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/"), min_size=1, max_size=6).filter(
    lambda name: name not in {".", ".."}
)
paths = st.just("/") | st.lists(names, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))

fill_values = {
    "bool": st.booleans(),
    **{f"int{bits}": st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": st.integers(0, 2**bits - 1) for bits in (8, 16, 32, 64)},
    "float16": st.floats(width=16).map(lambda number: struct.pack(">f", number)),
    "float32": st.binary(min_size=4, max_size=4),
    "float64": st.binary(min_size=8, max_size=8),
    "complex64": st.binary(min_size=8, max_size=8),
    "complex128": st.binary(min_size=16, max_size=16),
    "string": texts,
    "bytes": st.binary(max_size=300),
}
configurations = st.builds(NamedConfiguration, texts, st.none() | objects)


@st.composite
def metadata(draw: st.DrawFn) -> ZarrArrayMetadata:
    rank, data_type = draw(st.integers(0, 20)), draw(st.sampled_from(sorted(fill_values)))
    named = draw(st.none() | st.lists(st.none() | texts, min_size=rank, max_size=rank))
    return ZarrArrayMetadata(
        tuple(draw(U64) for _ in range(rank)),
        data_type,
        tuple(draw(st.integers(1, 2**64 - 1)) for _ in range(rank)),
        draw(st.sampled_from(CHUNK_KEY_ENCODINGS)),
        draw(fill_values[data_type]),
        tuple(draw(st.lists(configurations, max_size=3))),
        draw(st.none() | st.lists(configurations, max_size=2).map(tuple)),
        None if named is None else tuple(named),
    )


extents = st.lists(st.lists(U32, max_size=3).map(tuple), max_size=3).map(tuple)
references = st.lists(st.builds(ManifestReference, ids, extents), max_size=3, unique_by=lambda one: one.id).map(tuple)
arrays = st.builds(ArrayData, metadata(), references)
attributes = st.none() | objects | st.builds(AttributesReference, ids, U32)


@st.composite
def nodes(draw: st.DrawFn, least: int = 0) -> Nodes:
    chosen = draw(st.lists(paths, unique=True, min_size=least, max_size=8))
    ids = draw(st.lists(U32, unique=True, min_size=len(chosen), max_size=len(chosen)))
    kinds = attributes, st.none() | arrays
    return Nodes(
        {path: NodeSnapshot(number, path, *map(draw, kinds)) for number, path in zip(ids, chosen, strict=True)}
    )


infos = st.builds(SnapshotInfo, ids, times, texts)
files = st.lists(st.builds(FileInfo, ids, U16), max_size=3).map(tuple)
# each value is MessagePack, also of types that JSON lacks: an extension, binary data, a map with other keys
flags = st.dictionaries(
    texts,
    st.sampled_from([b"\xc0", b"\xd4\x05x", b"\xc4\x01\xff", b"\x81\x01\x92\xca\x7f\xa0\0\x01\xcd\0\x01"]),
    max_size=3,
)
snapshots = st.builds(
    SnapshotFile,
    metadata=infos,
    started_at=times,
    history=st.lists(infos, max_size=4).map(tuple),
    total_parents=U32,
    manifest_files=files,
    attribute_files=files,
    flags=flags,
    properties=objects,
    nodes=nodes(),
)
