"""Random arrays that both dialects of the 2022 draft can express, and their documents. Holds no tests."""

from __future__ import annotations

import json
from collections.abc import Mapping

from hypothesis import assume
from hypothesis import strategies as st

from frazil.codecs import DEFAULT_REGISTRY
from frazil.errors import MetadataError
from frazil.metadata.draft.chunk_keys import DraftKeys
from frazil.metadata.draft.fill_values import emit_fill
from frazil.metadata.draft.parser import emit_document, parse_document
from frazil.metadata.draft.transformers import chain_with_shards
from frazil.metadata.extensions import Extension
from frazil.metadata.grids.chunk_grids import RegularGrid
from frazil.metadata.json_text import Json, dump_json, parse_json
from frazil.metadata.model import ArrayMetadata, Metadata
from frazil.metadata.types.core import ComplexType, DataType, FloatType
from frazil.metadata.types.fill_values import FillValue
from tests.metadata.data_types_of_all_kinds import bits, numbers, plain_times, raw, strings, typed

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
ATTRIBUTES = st.dictionaries(st.text(max_size=6).filter(lambda name: name != "filters"), JSON, max_size=4)
DATA_TYPES = typed(numbers | raw | plain_times | strings)


def read(value: object, *, array: bool = True, old: bool = False) -> Metadata:
    """The content of a document; in between it is JSON text, as in a store."""
    return parse_document(parse_json(json.dumps(value).encode()), DEFAULT_REGISTRY, array=array, old=old)


def read_array(value: object, *, old: bool = False) -> ArrayMetadata:
    metadata = read(value, old=old)
    assert isinstance(metadata, ArrayMetadata)
    return metadata


def written(metadata: Metadata, *, old: bool) -> dict[str, Json]:
    """Its document, in the form of a store."""
    value = parse_json(dump_json(emit_document(metadata, old=old)))
    assert isinstance(value, dict)
    return value


def array_document(**changes: object) -> dict[str, object]:
    """A small array's document of December 2022, with members changed or added."""
    document: dict[str, object] = {
        "shape": [10, 20],
        "data_type": "int32",
        "chunk_grid": {"type": "regular", "chunk_shape": [5, 4], "separator": "/"},
        "chunk_memory_layout": "C",
        "fill_value": 1,
        "extensions": [],
        "attributes": {"foo": 42},
    }
    return {**document, **changes}


def without(document: Mapping[str, object], name: str) -> dict[str, object]:
    return {key: value for key, value in document.items() if key != name}


@st.composite
def arrays(draw: st.DrawFn, old: bool) -> ArrayMetadata:
    """As read from a document of the dialect, except for `document`."""
    rank = draw(st.integers(0, 3))
    data_type = draw(DATA_TYPES)
    chunk = tuple(draw(st.integers(1, 9)) for _ in range(rank))
    stack = draw(st.lists(st.tuples(*[st.integers(1, 4)] * rank), max_size=2))
    codecs, grid = chain_with_shards(draw(_chains(data_type, rank, old)), chunk, stack)
    return ArrayMetadata(
        shape=draw(st.lists(st.integers(0, 2**40), min_size=rank, max_size=rank)),
        data_type=data_type,
        fill_value=draw(_fills(data_type, old)),
        chunk_grid=grid if stack else RegularGrid(chunk),
        chunk_key_encoding=DraftKeys(draw(st.sampled_from("/.")), old),
        codecs=codecs,
        attributes=draw(ATTRIBUTES),
        zarr_format="draft-2021" if old else "draft",
    )


@st.composite
def _chains(draw: st.DrawFn, data_type: DataType, rank: int, old: bool) -> list[Extension]:
    reverse: list[Json] = list(range(rank - 1, -1, -1))
    transposed = [Extension("transpose", {"order": reverse})] if rank > 1 and draw(st.booleans()) else []
    order = {"endian": draw(st.sampled_from(["little", "big"]))} if data_type.swaps else {}
    size = data_type.itemsize
    blosc = {"cname": "zstd", "clevel": 3, "shuffle": "shuffle", "typesize": min(size, 255), "blocksize": 0}
    choices = [Extension("gzip", {"level": draw(st.integers(0, 9))})]
    if size < 256:
        choices.append(Extension("blosc", blosc))
    if old:
        choices.append(Extension("zstd", {"level": 3, "checksum": draw(st.booleans())}))
    return [*transposed, Extension("bytes", order), *draw(st.lists(st.sampled_from(choices), max_size=1))]


@st.composite
def _fills(draw: st.DrawFn, data_type: DataType, old: bool) -> FillValue:
    fill = FillValue(bits(draw, data_type), data_type.dtype)
    if isinstance(data_type, FloatType | ComplexType):
        try:
            emit_fill(fill, data_type, old=old)
        except MetadataError:  # NaNs with unusual bits, in the older dialect
            assume(False)
    return fill
