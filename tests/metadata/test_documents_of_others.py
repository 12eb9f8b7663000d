"""Documents as written by zarr-python 3, tensorstore and zarrs, read and written back."""

from __future__ import annotations

import numpy as np
import pytest

from frazil.metadata.extensions import Extension
from frazil.metadata.model import ArrayMetadata, GroupMetadata
from frazil.metadata.v3.documents import emit_node, parse_node

ZARR_PYTHON_SHARDED = b"""{
  "shape": [512, 512, 512],
  "data_type": "uint16",
  "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [256, 256, 256]}},
  "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
  "fill_value": 0,
  "codecs": [
    {
      "name": "sharding_indexed",
      "configuration": {
        "chunk_shape": [64, 64, 64],
        "codecs": [
          {"name": "bytes", "configuration": {"endian": "little"}},
          {"name": "zstd", "configuration": {"level": 0, "checksum": false}}
        ],
        "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
        "index_location": "end"
      }
    }
  ],
  "attributes": {"units": "m", "_FillValue": "AAAAAAAA+H8="},
  "dimension_names": ["z", "y", null],
  "zarr_format": 3,
  "node_type": "array",
  "storage_transformers": []
}"""

ZARR_PYTHON_BYTES = b"""{
  "shape": [], "data_type": "int8", "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": []}},
  "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "."}}, "fill_value": -1,
  "codecs": [{"name": "bytes"}, {"name": "gzip", "configuration": {"level": 5}}],
  "attributes": {}, "zarr_format": 3, "node_type": "array", "storage_transformers": []
}"""

ZARR_PYTHON_COMPLEX = b"""{
  "shape": [4], "data_type": "complex64", "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
  "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}}, "fill_value": ["NaN", -0.0],
  "codecs": [{"name": "bytes", "configuration": {"endian": "big"}}],
  "attributes": {}, "zarr_format": 3, "node_type": "array", "storage_transformers": []
}"""

ZARR_PYTHON_GROUP = b"""{
  "attributes": {"title": "sea"}, "zarr_format": 3,
  "consolidated_metadata": {"kind": "inline", "must_understand": false, "metadata": {
    "t": {"shape": [1], "data_type": "bfloat16", "zarr_format": 3, "node_type": "array"},
    "sub": {"attributes": {}, "zarr_format": 3, "consolidated_metadata": null, "node_type": "group"}}},
  "node_type": "group"
}"""

ZARR_PYTHON_PLAIN_GROUP = b'{"attributes": {}, "zarr_format": 3, "consolidated_metadata": null, "node_type": "group"}'

TENSORSTORE = b"""{"chunk_grid":{"configuration":{"chunk_shape":[64,64]},"name":"regular"},"chunk_key_encoding":{"name":"default"},
"codecs":[{"configuration":{"order":[1,0]},"name":"transpose"},{"configuration":{"endian":"little"},"name":"bytes"},
{"configuration":{"blocksize":0,"clevel":5,"cname":"lz4","shuffle":"shuffle","typesize":4},"name":"blosc"}],
"data_type":"float32","dimension_names":["y","x"],"fill_value":"0x7fc00001","node_type":"array","shape":[100,200],"zarr_format":3}"""

TENSORSTORE_RAW = b"""{"chunk_grid":{"configuration":{"chunk_shape":[64]},"name":"regular"},"chunk_key_encoding":{"name":"default"},
"codecs":[{"name":"bytes"}],"data_type":"r24","fill_value":"AQID","node_type":"array","shape":[100],"zarr_format":3}"""

ZARRS = b"""{
  "zarr_format": 3,
  "node_type": "array",
  "shape": [8, 8],
  "data_type": "float32",
  "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 4]}},
  "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
  "fill_value": "NaN",
  "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "numcodecs.adler32"}],
  "attributes": {"_zarrs": {"description": "This array was created with zarrs", "version": "0.23.8"}},
  "dimension_names": ["y", "x"]
}"""

ZARRS_EXTENDED = b"""{
  "zarr_format": 3, "node_type": "array", "shape": [8], "data_type": {"name": "float16"},
  "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}}, "chunk_key_encoding": "v2",
  "fill_value": "-Infinity", "codecs": ["bytes", {"name": "crc32c", "must_understand": true}],
  "extra": {"must_understand": false, "name": "example"}
}"""

ALL = {name: text for name, text in globals().items() if isinstance(text, bytes)}


@pytest.mark.parametrize("name", ALL)
def test_documents_of_other_writers_round_trip(name):
    metadata = parse_node(ALL[name])
    assert parse_node(emit_node(metadata)) == metadata


def array(text: bytes) -> ArrayMetadata:
    metadata = parse_node(text)
    assert isinstance(metadata, ArrayMetadata)
    return metadata


def test_zarr_python():
    sharded = array(ZARR_PYTHON_SHARDED)
    assert (sharded.shape, sharded.grid_shape, sharded.dtype) == ((512, 512, 512), (2, 2, 2), np.dtype("uint16"))
    assert sharded.codecs[0].configuration["index_location"] == "end"
    assert sharded.dimension_names == ("z", "y", None)
    assert array(ZARR_PYTHON_BYTES).chunk_key_encoding.encode_one(()) == "0"
    fill = array(ZARR_PYTHON_COMPLEX).fill_value
    assert fill.data == np.array([np.nan, -0.0], "f4").tobytes()


def test_zarr_python_groups():
    group = parse_node(ZARR_PYTHON_GROUP)
    assert isinstance(group, GroupMetadata)
    assert group.consolidated is not None
    assert group.attributes == {"title": "sea"}
    assert parse_node(ZARR_PYTHON_PLAIN_GROUP) == GroupMetadata()


def test_tensorstore():
    assert array(TENSORSTORE).fill_value.data == np.uint32(0x7FC00001).tobytes()
    assert array(TENSORSTORE).codecs[0] == Extension("transpose", {"order": [1, 0]})
    assert array(TENSORSTORE_RAW).fill_value.data == b"\1\2\3"


def test_zarrs():
    assert array(ZARRS).codecs[1] == Extension("numcodecs.adler32")
    extended = array(ZARRS_EXTENDED)
    assert extended.fill_value.scalar == -np.inf
    assert extended.chunk_key_encoding.encode_one((1,)) == "1"
    assert extended.unknown == {"extra": {"must_understand": False, "name": "example"}}
