"""An array codec applied to a byte string, which is viewed as a 1-dimensional array of uint8: `frazil.on_bytes`, a codec that no other program knows.

The 2022 draft allows an array codec behind one that makes bytes; the final Zarr v3 has no other way to express that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from frazil.codecs.codec import ArrayToArray, ArrayToBytes, BytesToBytes, ChunkSpec, Codec, ParseCodecs
from frazil.errors import ChunkDecodeError, FrazilError, MetadataError

_SAMPLES = (16, 4096)  # lengths, in bytes, at which sizes are compared


class OnBytes(BytesToBytes):
    """codec: an array-to-array or array-to-bytes codec whose output is as long as its input; with others the decoded length would not be known."""

    codec: ArrayToArray | ArrayToBytes
    name: ClassVar[str] = "frazil.on_bytes"
    required: ClassVar[tuple[str, ...]] = ("codec",)

    def __init__(self, codec: Codec) -> None:
        if not isinstance(codec, ArrayToArray | ArrayToBytes):
            raise MetadataError(f"codec is {codec!r}; it must be a codec of arrays", path="codec")
        self.codec = codec
        for length in _SAMPLES:
            if self._output_size(_spec(length)) != length:
                raise MetadataError(
                    f"codec {codec.name} does not make as many bytes as it gets, so that it cannot run over a byte string",
                    path="codec",
                    hint="put it before the codecs that make bytes",
                )

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, object], parse: ParseCodecs) -> OnBytes:
        (codec,) = parse([configuration["codec"]], "codec")
        return cls(codec)

    def encode(self, data: bytes) -> bytes:
        spec = _spec(len(data))
        array = np.frombuffer(data, np.uint8)
        if isinstance(self.codec, ArrayToBytes):
            return self.codec.encode(array, spec)
        output_spec = self.codec.encoded_spec(spec, self.codec.name)
        return self.codec.encode(array, spec).astype(output_spec.dtype.newbyteorder("<"), copy=False).tobytes()

    def decode(self, data: bytes, limit: int) -> bytes:
        if len(data) > limit:
            raise ChunkDecodeError(f"codec {self.name} got {len(data)} bytes; at most {limit} are possible")
        spec = _spec(len(data))
        if isinstance(self.codec, ArrayToBytes):
            return self.codec.decode(data, spec).tobytes()
        try:
            output_spec = self.codec.encoded_spec(spec, self.codec.name)
        except MetadataError as error:
            raise ChunkDecodeError(f"codec {self.name}: {error}") from error
        stored = np.frombuffer(data, output_spec.dtype.newbyteorder("<"))
        array = stored.astype(output_spec.dtype, copy=False).reshape(output_spec.shape)
        return self.codec.decode(array, spec).tobytes()

    def encoded_size(self, nbytes: int) -> int | None:
        return nbytes

    def _output_size(self, spec: ChunkSpec) -> int | None:
        """Bytes that the codec makes of input of this spec; None where that depends on the values, or it takes no bytes."""
        try:
            if isinstance(self.codec, ArrayToBytes):
                self.codec.check(spec, self.codec.name)
                return self.codec.encoded_size(spec)
            return self.codec.encoded_spec(spec, self.codec.name).nbytes
        except FrazilError:
            return None


def _spec(length: int) -> ChunkSpec:
    return ChunkSpec((length,), np.dtype(np.uint8), (), b"\0")
