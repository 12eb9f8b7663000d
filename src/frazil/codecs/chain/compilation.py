"""A codec chain, checked and compiled once for an array: levels of sharding and an inner chunk.

The format of a shard is in sharding/shard.py, decoding and encoding of an inner chunk in compiled_chain.py."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING

from frazil import _kernel
from frazil.codecs.array_to_array import transpose
from frazil.codecs.array_to_bytes.bytes import Bytes
from frazil.codecs.chain import element_stage, python_chain, python_stage
from frazil.codecs.chain.compiled_chain import Chain, InnerChunk, Stage
from frazil.codecs.codec import (
    ArrayToArray,
    ArrayToBytes,
    BytesToBytes,
    ChunkSpec,
    Codec,
    NativeCodec,
    Sharding,
    bound_of,
    codec_call,
    encoded_spec,
    size_of,
)
from frazil.codecs.sharding import whole_shard
from frazil.codecs.sharding.shard import Level, index_spec, make_kernel_index
from frazil.errors import MetadataError

if TYPE_CHECKING:
    from frazil.codecs.chain.python_chain import PythonChain, Serializer

_MOST_DIMENSIONS = 32  # the limit of NumPy before 2.0
_MOST_BYTES = 2**48  # of a chunk, decoded: the kernel's limit
_MOST_INNER_CHUNKS = 2**31  # of a shard
_LARGEST_BOUND = 2**62

Parts = tuple[list[tuple[ArrayToArray, str]], tuple[ArrayToBytes, str], list[tuple[BytesToBytes, str]]]


def split(codecs: Sequence[Codec], path: str) -> Parts:
    """The three parts of a chain, each codec with its path in the document.

    Raises MetadataError unless they are array-to-array codecs, one array-to-bytes codec, bytes-to-bytes codecs, in this order (Zarr v3.1 core, Codecs)."""
    parts: list[list[tuple[Codec, str]]] = [[], [], []]
    for i, codec in enumerate(codecs):
        kind = codec._part
        if any(parts[kind + 1 :]) or (kind == 1 and parts[1]):
            raise MetadataError(
                f"codec {codec.name} cannot be here; a chain is array-to-array codecs, exactly one array-to-bytes codec,"
                " then bytes-to-bytes codecs",
                path=f"{path}[{i}]",
            )
        parts[kind].append((codec, f"{path}[{i}]"))
    if not parts[1]:
        found = ", ".join(codec.name for codec in codecs) or "none"
        raise MetadataError(
            f"codecs are {found}; exactly one array-to-bytes codec (bytes, sharding_indexed) is required", path=path
        )
    return parts[0], parts[1][0], parts[2]  # type: ignore[return-value]


def compile_chain(codecs: Sequence[Codec], spec: ChunkSpec) -> Chain:
    """Checks a chain against the chunks that it will encode, and compiles it.

    Raises MetadataError that names the codec's path in the document."""
    if len(spec.shape) > _MOST_DIMENSIONS:
        raise MetadataError(
            f"the array has {len(spec.shape)} dimensions; at most {_MOST_DIMENSIONS} are possible", path="shape"
        )
    if spec.nbytes > _MOST_BYTES:
        raise MetadataError(
            f"a chunk of shape {list(spec.shape)} and {spec.dtype.itemsize} bytes an element has {spec.nbytes} bytes; at most {_MOST_BYTES} are possible",
            path="chunk_grid.configuration.chunk_shape",
        )
    return _compile(codecs, spec, tuple(range(len(spec.shape))), "codecs")


def _compile(codecs: Sequence[Codec], spec: ChunkSpec, order: tuple[int, ...], path: str) -> Chain:
    """`spec` has the dimensions of the array. order: for each dimension of the chain's input its dimension in the array."""
    before, (serializer, serializer_path), after = split(codecs, path)
    shard_spec = spec._replace(shape=tuple(spec.shape[d] for d in order))
    if isinstance(serializer, Sharding) and all(type(codec) is transpose.Transpose for codec, _ in before):
        for codec, codec_path in before:
            assert isinstance(codec, transpose.Transpose)
            shard_spec = encoded_spec(codec, shard_spec, codec_path)
            order = tuple(order[d] for d in codec.order)
        return _compile_shards(serializer, shard_spec, spec, order, [codec for codec, _ in after], serializer_path)
    inner_chunk = _inner_chunk(before, (serializer, serializer_path), after, shard_spec, order, spec)
    return Chain((), inner_chunk, inner_chunk.stage is None)


def compile_shard(codec: Sharding, spec: ChunkSpec, path: str) -> whole_shard.WholeShard:
    """A sharding codec that can run, for chunks of this spec. Raises MetadataError that names a path below that of the codec."""
    return whole_shard.WholeShard(
        codec.name, _compile_shards(codec, spec, spec, tuple(range(len(spec.shape))), [], path)
    )


def _compile_shards(
    codec: Sharding,
    shard_spec: ChunkSpec,
    spec: ChunkSpec,
    order: tuple[int, ...],
    after: list[BytesToBytes],
    path: str,
) -> Chain:
    """shard_spec: the input of the codec; the other arguments as in _compile.

    A shard may have gaps, so its size has no natural bound. The bound is twice the size of a full shard."""
    level = _level(codec, shard_spec, order, after, path)
    inner = _compile(codec.codecs, spec._replace(shape=level.inner), order, f"{path}.configuration.codecs")
    full = level.index_codecs.nbytes + level.total * inner.bound
    for following in after:
        full = bound_of(following, partial(following.bound, full), "codecs")
    levels = (level._replace(bound=min(2 * full + 2**16, _LARGEST_BOUND)), *inner.levels)
    return Chain(levels, inner.inner_chunk, inner.native and level.addressable and level.index_codecs.plain)


def _level(
    codec: Sharding, shard_spec: ChunkSpec, order: tuple[int, ...], after: list[BytesToBytes], path: str
) -> Level:
    codec.check(shard_spec, path)
    counts = tuple(n // c for n, c in zip(shard_spec.shape, codec.chunk_shape, strict=True))
    if prod(counts) > _MOST_INNER_CHUNKS:
        raise MetadataError(
            f"a shard of shape {list(shard_spec.shape)} has {prod(counts)} inner chunks, whose index is held in memory; at most {_MOST_INNER_CHUNKS} are possible",
            path=f"{path}.configuration.chunk_shape",
        )
    index = fixed_chain(codec.index_codecs, index_spec(counts), f"{path}.configuration.index_codecs")
    rank = len(order)
    inner, of_array, strides = [0] * rank, [0] * rank, [0] * rank
    stride = 1
    for shard_axis in reversed(range(rank)):
        axis = order[shard_axis]
        inner[axis], of_array[axis], strides[axis] = codec.chunk_shape[shard_axis], counts[shard_axis], stride
        stride *= counts[shard_axis]
    return Level(
        tuple(inner),
        tuple(of_array),
        tuple(strides),
        prod(counts),
        index,
        codec.index_location == "end",
        tuple(after),
        0,
        make_kernel_index(index, of_array, strides, at_end=codec.index_location == "end"),
    )


def check_sizes(codecs: Sequence[Codec], spec: ChunkSpec, path: str = "codecs") -> None:
    """Raises MetadataError where a codec cannot take as many bytes as each chunk of this spec gives it: for arrays that are created. A codec whose input size
    depends on the values (a compressor behind another, or behind shards) is checked when it is written."""
    before, (serializer, serializer_path), after = split(codecs, path)
    spec = _specs(before, spec)[-1]
    if isinstance(serializer, Sharding):
        inner = spec._replace(shape=tuple(serializer.chunk_shape))
        check_sizes(serializer.codecs, inner, f"{serializer_path}.configuration.codecs")
        return
    sizes = _sizes((serializer, serializer_path), after, spec)
    for (following, codec_path), size in zip(after, sizes, strict=False):
        most = following.most_bytes
        if size is not None and most is not None and size > most:
            raise MetadataError(
                f"a chunk has {size} bytes, and {following.name} takes at most {most}",
                path=codec_path,
                hint="choose smaller chunks, or a codec without this limit, such as zstd",
            )


def _sizes(
    serializer: tuple[ArrayToBytes, str], after: Sequence[tuple[BytesToBytes, str]], spec: ChunkSpec
) -> list[int | None]:
    """Bytes after the array-to-bytes codec, and after each codec behind it; None where they depend on the values."""
    codec, path = serializer
    sizes = [size_of(codec, partial(codec.encoded_size, spec), path)]
    for following, codec_path in after:
        size = sizes[-1]
        sizes.append(None if size is None else size_of(following, partial(following.encoded_size, size), codec_path))
    return sizes


def fixed_chain(codecs: Sequence[Codec], spec: ChunkSpec, path: str) -> PythonChain:
    """As nested_chain, for codecs whose encoded size must not depend on the values, as of a shard index (sharding codec 1.0, index_codecs)."""
    chain = nested_chain(codecs, spec, path)
    _, serializer, after = split(codecs, path)
    sizes = _sizes(serializer, after, chain.specs[-1])
    for size, (_, codec_path) in zip(sizes, [serializer, *after], strict=True):
        if size is None:
            raise MetadataError(
                "a codec whose encoded size depends on the values cannot encode a shard index; use bytes and crc32c",
                path=codec_path,
            )
    return chain._replace(bounds=tuple([size or 0 for size in sizes]))


def nested_chain(codecs: Sequence[Codec], spec: ChunkSpec, path: str) -> PythonChain:
    """A chain inside the configuration of a codec, for arrays of this spec. Raises MetadataError where it cannot encode them."""
    before, serializer, after = split(codecs, path)
    specs = _specs(before, spec)
    most = _checked_bound(serializer, specs[-1])
    return _chain(before, serializer[0], after, specs, _bounds(most, after))


def _checked_bound(serializer: tuple[ArrayToBytes, str], spec: ChunkSpec) -> int:
    """The most bytes of an encoded chunk of this spec. Raises MetadataError if the codec cannot encode it."""
    codec, path = serializer
    with codec_call(codec, path):
        codec.check(spec, path)
    return bound_of(codec, lambda: codec.bound(spec), path)


def _chain(
    before: Sequence[tuple[ArrayToArray, str]],
    serializer: Serializer,
    after: Sequence[tuple[BytesToBytes, str]],
    specs: Sequence[ChunkSpec],
    bounds: Sequence[int],
) -> PythonChain:
    of_arrays, of_bytes = tuple(codec for codec, _ in before), tuple(codec for codec, _ in after)
    return python_chain.PythonChain(of_arrays, serializer, of_bytes, tuple(specs), tuple(bounds))


def _specs(before: Sequence[tuple[ArrayToArray, str]], spec: ChunkSpec) -> list[ChunkSpec]:
    """The input of each codec, and of the one behind them."""
    specs = [spec]
    for codec, path in before:
        specs.append(encoded_spec(codec, specs[-1], path))
    return specs


def _bounds(most: int, after: Sequence[tuple[BytesToBytes, str]]) -> list[int]:
    """The most bytes before the first of these codecs, and after each."""
    bounds = [most]
    for codec, path in after:
        bound = bound_of(codec, partial(codec.bound, bounds[-1]), path)
        bounds.append(min(bound, _LARGEST_BOUND))
    return bounds


def _inner_chunk(
    before: list[tuple[ArrayToArray, str]],
    serializer: tuple[ArrayToBytes, str],
    after: list[tuple[BytesToBytes, str]],
    shard_spec: ChunkSpec,
    order: tuple[int, ...],
    spec: ChunkSpec,
) -> InnerChunk:
    specs = _specs(before, shard_spec)
    codec, serializer_path = serializer
    runs: Serializer = codec
    if isinstance(codec, Sharding):
        runs = shard = compile_shard(codec, specs[-1], serializer_path)
        most = shard.bound
    else:
        most = _checked_bound(serializer, specs[-1])
    bounds = _bounds(most, after)
    native: list[NativeCodec] = []
    for following, codec_path in reversed(after):
        with codec_call(following, codec_path) as call:
            form = following.native()
            if form is not None and not (isinstance(form, tuple) and form and isinstance(form[0], str)):
                raise call.wrong(form, "a tuple that begins with the kernel's name of a codec, or None")
        if form is None:
            break
        native.insert(0, form)
    needed = [first for first, _ in before]
    while type(codec) is Bytes and needed and needed[-1].keeps_order:  # the bytes are the same without it
        needed.pop()
    transpositions = [first for first in needed if type(first) is transpose.Transpose]
    stage: Stage | None = None
    if (type(codec) is Bytes or codec._vlen) and len(native) == len(after) and len(transpositions) == len(needed):
        for transposition in transpositions:
            order = tuple(order[d] for d in transposition.order)
        if type(codec) is Bytes:  # the kernel does all
            swaps, by_program = codec.swaps(specs[-1]), native
        else:
            swaps, by_program = (), []
            stage = element_stage.ElementStage(specs[-1].shape, specs[-1].dtype, tuple(native), bounds[0])
    else:
        python = after[: len(after) - len(native)]
        chain = _chain(before, runs, python, specs, bounds[: len(python) + 1])
        stage = python_stage.PythonStage(order, chain, tuple(native))
        order, swaps, by_program = tuple(range(len(order))), (), []
    program = _kernel.program(spec.shape, spec.dtype.itemsize, order, swaps, by_program, spec.fill)
    return InnerChunk(spec.shape, program, stage, bounds[-1], spec.nbytes)
