"""The sharding storage transformer in documents of the 2022 draft (sharding storage transformer 1.0), converted to the equivalent sharding codec, and back.

The transformer as a store over a store is in stores/transformer/."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from frazil.base.record import Record
from frazil.errors import MetadataError
from frazil.metadata.draft.entry_point import check_uri
from frazil.metadata.extensions import Extension, parse_extensions
from frazil.metadata.grids.chunk_grids import RegularGrid
from frazil.metadata.json_text import Json, item
from frazil.metadata.members import INT64_MAX, Members, check_integers, check_object, refusal

URI: Final = "https://purl.org/zarr/spec/extensions/storage_transformers/sharding/1.0"
OLD_URI: Final = "https://purl.org/zarr/spec/storage_transformers/sharding/1.0"  # the only one that zarr-python 2 reads
_URIS: Final = re.compile(r"https?://purl\.org/zarr/spec/(?:extensions/)?storage[_-]transformers/sharding/1\.0")
_INDEX: Final[list[Json]] = [{"name": "bytes", "configuration": {"endian": "little"}}]


class Transformers(Record):
    """shards: chunks in a shard, along each dimension, of each transformer that shards, array side first; others: the transformers behind them."""

    shards: tuple[tuple[int, ...], ...]
    others: tuple[Extension, ...]


def is_sharding(uri: str) -> bool:
    """Whether a URI is one of those of the transformer, in its specification or from its writers."""
    return _URIS.fullmatch(uri) is not None


def split_transformers(values: list[Json], ndim: int, *, old: bool, strict: bool = True) -> Transformers:
    """The entries of `storage_transformers`. strict: their unknown members are refused, except in the older dialect. Sharding transformers on the array's side
    become shards; those behind another transformer have to be run as stores, like it."""
    shards: list[tuple[int, ...]] = []
    others: list[Extension] = []
    for at, value in enumerate(values):
        inner_path = item("storage_transformers", at)
        members = Members(check_object(value, inner_path), inner_path)
        uri, kind = check_uri(members.string("extension"), members.at("extension")), members.get("type")
        configuration = members.object("configuration", {})
        if strict and not old:
            members.finish()
        if is_sharding(uri):
            shard = read_configuration(kind, configuration, ndim, inner_path, old=old)
            if not others:
                shards.append(shard)
                continue
        others.append(Extension(uri, {"type": kind, "configuration": configuration}))
    return Transformers(tuple(shards), tuple(others))


def read_configuration(
    kind: Json, configuration: dict[str, Json], ndim: int, inner_path: str, *, old: bool
) -> tuple[int, ...]:
    """Chunks in a shard along each dimension, checked (sharding storage transformer 1.0, Configuration parameters)."""
    if kind != "indexed":
        raise refusal(f"{inner_path}.type", '"indexed", the only binary format there is', kind)
    members = Members(configuration, f"{inner_path}.configuration")
    value = members.get("chunks_per_shard")
    if not old:
        members.finish()
    path = members.at("chunks_per_shard")
    if old and isinstance(value, int) and not isinstance(value, bool):
        value = [value] * max(ndim, 1)
    counts = check_integers(value, path, low=1)
    if not ndim and counts == (1,):  # zarr-python 2 wrote this for arrays without dimensions
        return ()
    if len(counts) != ndim:
        raise refusal(path, f"{ndim} integers, as many as the shape has", list(counts))
    return counts


def chain_with_shards(
    codecs: Sequence[Extension], chunk: tuple[int, ...], shards: Sequence[tuple[int, ...]]
) -> tuple[tuple[Extension, ...], RegularGrid]:
    """The chain of a shard, and the grid of shards. The shards of each transformer are the chunks of the next one: the last one makes the outermost shards."""
    chain = tuple(codecs)
    for counts in shards:
        inner: list[Json] = list(chunk)
        configuration: dict[str, Json] = {
            "chunk_shape": inner,
            "codecs": [codec.to_json() for codec in chain],
            "index_codecs": _INDEX,
            "index_location": "end",
        }
        chain = (Extension("sharding_indexed", configuration),)
        chunk = tuple(extent * count for extent, count in zip(chunk, counts, strict=True))
        if any(extent > INT64_MAX for extent in chunk):
            raise MetadataError(
                f"a shard of {list(chunk)} elements is longer than 2^63 - 1", path="storage_transformers"
            )
    return chain, RegularGrid(chunk)


def without_shards(
    codecs: Sequence[Extension], outer: tuple[int, ...]
) -> tuple[tuple[Extension, ...], tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Undoes chain_with_shards: codecs and shape of the innermost chunks, and the shards. Raises MetadataError for shards that a transformer cannot make."""
    shards: list[tuple[int, ...]] = []
    chain, extents = tuple(codecs), outer
    while any(codec.name == "sharding_indexed" for codec in chain):
        if len(chain) > 1:
            raise MetadataError(
                "codecs before or behind sharding_indexed cannot be expressed in the draft of 2022, whose shards are a storage transformer",
                path="codecs",
            )
        members = Members(chain[0].configuration, "codecs[0].configuration")
        inner = members.integers("chunk_shape", low=1, length=len(extents))
        if members.string("index_location", "end") != "end" or not _is_plain(members.get("index_codecs")):
            raise MetadataError(
                "shards of the draft of 2022 have their index at the end, little-endian and without a checksum",
                path="codecs[0].configuration",
                hint='index_location "end", and only bytes as index_codecs',
            )
        shards.insert(0, tuple(extent // part for extent, part in zip(extents, inner, strict=True)))
        chain, extents = parse_extensions(members.get("codecs"), members.at("codecs")), inner
    return chain, extents, tuple(shards)


def emit_shards(shards: Sequence[tuple[int, ...]], *, old: bool) -> list[Json]:
    """The entries of `storage_transformers` for these shards."""
    return [
        {
            "extension": OLD_URI if old else URI,
            "type": "indexed",
            "configuration": {"chunks_per_shard": list[Json](counts)},
        }
        for counts in shards
    ]


def _is_plain(index_codecs: Json) -> bool:
    codecs = parse_extensions(index_codecs, "index_codecs")
    return len(codecs) == 1 and codecs[0].name == "bytes" and codecs[0].configuration.get("endian") == "little"
