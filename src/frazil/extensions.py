"""The types for writing extensions: values, and ports of the extensions that `Registry.with_...` takes. Codecs and their base classes are in frazil.codecs,
stores in frazil.stores.

Extension            a name or URI with its configuration, as documents hold it
DataType             the base class of data types; DataTypeFamily: a registry's entry for them, and FillValue: one element
RegularGrid          the chunk grid that arrays are read through, and the base class of others; ChunkGrid: the port
ChunkKeyEncoding     the port; SeparatedKeys: of coordinates with a separator; DraftKeys: of the draft of 2022
NamedExtension       a chunk grid or chunk key encoding of one name, made by a function, to be registered
ArrayMetadata        the content of an array's document, which a generic extension of arrays changes (with_members)
MetadataEncoding     the port of an encoding of documents
Json                 a JSON value, as in documents
MemoryLayout, ArrayExtension, MetadataEncodingReader, StorageTransformer, RuntimeTransformer   the functions that are registered
"""

from frazil.codecs.registry import RuntimeTransformer, StorageTransformer
from frazil.metadata.draft.chunk_keys import DraftKeys
from frazil.metadata.draft.extensions import ArrayExtension, MemoryLayout, MetadataEncoding, MetadataEncodingReader
from frazil.metadata.extensions import Extension, NamedExtension
from frazil.metadata.grids.chunk_grids import ChunkGrid, RegularGrid
from frazil.metadata.grids.chunk_keys import ChunkKeyEncoding, SeparatedKeys
from frazil.metadata.json_text import Json
from frazil.metadata.model import ArrayMetadata
from frazil.metadata.types.core import DataType, DataTypeFamily
from frazil.metadata.types.fill_values import FillValue

__all__ = [
    "ArrayExtension",
    "ArrayMetadata",
    "ChunkGrid",
    "ChunkKeyEncoding",
    "DataType",
    "DataTypeFamily",
    "DraftKeys",
    "Extension",
    "FillValue",
    "Json",
    "MemoryLayout",
    "MetadataEncoding",
    "MetadataEncodingReader",
    "NamedExtension",
    "RegularGrid",
    "RuntimeTransformer",
    "SeparatedKeys",
    "StorageTransformer",
]
