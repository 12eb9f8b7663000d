"""What extensions are written with: values and ports for those that `Registry.with_...` takes. Codecs and what they derive from are in frazil.codecs, stores
in frazil.stores.

Extension            a name or URI with its configuration, as documents hold it
DataType             what a data type derives from; DataTypeFamily: what is registered, and FillValue: one element
RegularGrid          the chunk grid that arrays are read through, and what others derive from; ChunkGrid: the port
ChunkKeyEncoding     the port; SeparatedKeys: of coordinates with a separator; DraftKeys: of the draft of 2022
NamedExtension       a chunk grid or chunk key encoding of one name, made by a function, to be registered
ArrayMetadata        what a document says, which a generic extension of arrays changes (with_members)
MetadataEncoding     the port of an encoding of documents
Json                 what a document consists of
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
