"""The content of documents in any dialect: the metadata of an array and of a group, as frozen values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter, is_
from typing import ClassVar, Final, Literal, Self, TypeAlias, cast

from frazil.base.arrays import Dtype
from frazil.base.record import Record
from frazil.errors import MetadataError
from frazil.metadata.extension_guard import ExtensionCall
from frazil.metadata.extensions import Extension
from frazil.metadata.grids.chunk_grids import ChunkGrid, RegularGrid
from frazil.metadata.grids.chunk_keys import ChunkKeyEncoding
from frazil.metadata.json_text import Json, copied, item
from frazil.metadata.members import json_object, lengths_from_user, refusal
from frazil.metadata.types.core import DataType
from frazil.metadata.types.fill_values import FillValue
from frazil.metadata.value import Value, assign

ZarrFormat: TypeAlias = Literal[3, "draft", "draft-2021", 2]
FORMATS: Final[tuple[ZarrFormat, ...]] = (3, 2, "draft", "draft-2021")  # those that can be read and written
DIMENSIONS: Final = "_ARRAY_DIMENSIONS"  # the attribute of dialects whose documents have no dimension_names


def parsed_format(value: object) -> ZarrFormat | None:
    """The dialect that a value names, in the names of users and documents; None for any other value."""
    plain = isinstance(value, int | str) and not isinstance(value, bool)
    return next((version for version in FORMATS if plain and version == value), None)


class NodeMetadata(Value):
    """The common part of the metadata of arrays and of groups."""

    __slots__: tuple[str, ...] = ()
    node_type: ClassVar[Literal["array", "group"]]
    attributes: Mapping[str, Json]

    @property
    def user_attributes(self) -> Mapping[str, Json]:
        """The attributes as users see them: in Zarr v2 with the names of dimensions, which are one of them there."""
        return self.attributes

    def members(self) -> dict[str, Json]:
        """The members of the document, attributes included; not copied, so they are to be read and not changed."""
        return {"node_type": self.node_type, "attributes": cast("Json", self.user_attributes)}

    def to_dict(self) -> dict[str, Json]:
        """The document as a JSON object, attributes included: a name of zarr-python."""
        return json_object(self.members(), None)

    def with_plain_attributes(self, attributes: dict[str, Json]) -> Self:
        """The same node with these attributes instead of its own: plain JSON that no other value shares. They are neither checked nor copied."""
        return self.with_plain_members(attributes=attributes)

    def with_plain_members(self, **members: object) -> Self:
        """As with_plain_attributes, with other fields, too, which fit the others."""
        result = object.__new__(type(self))
        for name in self.__slots__:
            assign(result, name, getattr(self, name))
        for name, value in members.items():
            assign(result, name, value)
        return result


class ArrayMetadata(NodeMetadata):
    """The metadata of one array. Raises MetadataError where the parts do not fit together; `path` names the member.

    shape                 elements along each dimension, each from 0 to 2^63 - 1 (from users: one integer or any sequence)
    fill_value            of the data type's dtype, exact to the bit
    codecs                at least one; codecs/ checks whether they are a valid chain
    attributes            plain JSON, copied; None: none
    dimension_names       one for each dimension, None for an unnamed one; None: no names at all
    storage_transformers  array side first
    zarr_format           the dialect of the document, under its name for users
    unknown               unknown members of the document with `"must_understand": false`; they are written back
    document              the object that was read, where the dialect contains more than the other fields: a rewritten document has its members, except
                          the shape and the attributes. None: the other fields contain everything"""

    __slots__ = (
        "attributes",
        "chunk_grid",
        "chunk_key_encoding",
        "codecs",
        "data_type",
        "dimension_names",
        "document",
        "fill_value",
        "shape",
        "storage_transformers",
        "unknown",
        "zarr_format",
    )
    node_type = "array"
    shape: tuple[int, ...]
    data_type: DataType
    fill_value: FillValue
    chunk_grid: ChunkGrid
    chunk_key_encoding: ChunkKeyEncoding
    codecs: tuple[Extension, ...]
    dimension_names: tuple[str | None, ...] | None
    storage_transformers: tuple[Extension, ...]
    zarr_format: ZarrFormat
    unknown: Mapping[str, Json]
    document: Mapping[str, Json] | None

    def __init__(
        self,
        *,
        shape: object,
        data_type: DataType,
        fill_value: FillValue,
        chunk_grid: ChunkGrid,
        chunk_key_encoding: ChunkKeyEncoding,
        codecs: Iterable[Extension],
        attributes: Mapping[str, object] | None = None,
        dimension_names: Iterable[str | None] | None = None,
        storage_transformers: Iterable[Extension] = (),
        zarr_format: ZarrFormat = 3,
        unknown: Mapping[str, object] | None = None,
        document: Mapping[str, Json] | None = None,
    ) -> None:
        lengths = lengths_from_user(shape, "shape", low=0)
        if fill_value.dtype != data_type.dtype:
            raise MetadataError(
                f"fill_value must be of {data_type.name}, found one of {fill_value.dtype}", path="fill_value"
            )
        fitted = getattr(chunk_grid, "fitted", None)  # a grid whose last chunks end with the array
        chunk_grid = chunk_grid if fitted is None else fitted(lengths)
        _check_grid(chunk_grid, lengths)
        chain = tuple(codecs)
        if not chain:
            raise MetadataError(
                "codecs must hold at least one codec, found none", path="codecs", hint='add the codec "bytes"'
            )
        assign(self, "shape", lengths)
        assign(self, "data_type", data_type)
        assign(self, "fill_value", fill_value)
        assign(self, "chunk_grid", chunk_grid)
        assign(self, "chunk_key_encoding", chunk_key_encoding)
        assign(self, "codecs", chain)
        assign(self, "attributes", json_object({} if attributes is None else attributes, "attributes"))
        assign(self, "dimension_names", _dimension_names(dimension_names, len(lengths)))
        assign(self, "storage_transformers", tuple(storage_transformers))
        assign(self, "zarr_format", zarr_format)
        assign(self, "unknown", json_object({} if unknown is None else unknown, None))
        assign(self, "document", document)

    @property
    def user_attributes(self) -> Mapping[str, Json]:
        if self.zarr_format != 2 or self.dimension_names is None:
            return self.attributes
        return {**self.attributes, DIMENSIONS: list(self.dimension_names)}

    def members(self) -> dict[str, Json]:
        shape: list[Json] = list(self.shape)
        if self.document is not None:
            return {**self.document, "shape": shape, "attributes": cast("Json", self.user_attributes)}
        document: dict[str, Json] = {
            "zarr_format": self.zarr_format,
            "node_type": self.node_type,
            "shape": shape,
            "data_type": self.data_type.to_json(),
            "chunk_grid": self.chunk_grid.extension().members(),
            "chunk_key_encoding": self.chunk_key_encoding.extension().members(),
            "fill_value": self.data_type.emit_fill(self.fill_value),
            "codecs": [codec.members() for codec in self.codecs],
            "attributes": cast("Json", self.attributes),
        }
        if self.dimension_names is not None:
            document["dimension_names"] = list(self.dimension_names)
        if self.storage_transformers:
            document["storage_transformers"] = [transformer.members() for transformer in self.storage_transformers]
        return {**document, **self.unknown}

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> Dtype:
        """The native NumPy dtype."""
        return self.data_type.dtype

    @property
    def fill_is_undefined(self) -> bool:
        """Whether the document leaves elements undefined that were never written, as Zarr v2 does with a fill value of null."""
        return self.zarr_format == 2 and self.document is not None and self.document.get("fill_value", 0) is None

    @property
    def grid_shape(self) -> tuple[int, ...]:
        """Chunks (shards, if there are any) along each dimension."""
        return self.chunk_grid.grid_shape(self.shape)

    def with_shape(self, shape: object) -> ArrayMetadata:
        """The same array with other lengths, of as many dimensions."""
        lengths = lengths_from_user(shape, "shape", low=0)
        if len(lengths) != self.ndim:
            raise refusal("shape", f"{self.ndim} lengths, one for each dimension", list(lengths))
        grown = getattr(self.chunk_grid, "grown", None)  # a rectilinear grid gets the chunks that a longer array needs
        if grown is not None and (grid := grown(lengths)) is not self.chunk_grid:
            return self.with_members(shape=lengths, chunk_grid=grid)
        _check_grid(self.chunk_grid, lengths)
        return self.with_plain_members(shape=lengths, attributes=json_object(self.attributes, "attributes"))

    def differs_in_shape_alone(self, other: object) -> bool:
        """Whether the shape differs, and all fields except the attributes are the same objects, as after with_shape. False means nothing."""
        if not isinstance(other, ArrayMetadata) or self.shape == other.shape:
            return False
        return all(map(is_, _BESIDE_SHAPE(self), _BESIDE_SHAPE(other)))

    def with_attributes(self, attributes: Mapping[str, object]) -> ArrayMetadata:
        """The same array with these attributes instead of its own."""
        return self.with_members(attributes=attributes)

    def with_members(self, **members: object) -> ArrayMetadata:
        """The same array with these fields instead of its own. Raises MetadataError if they do not fit the others."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return ArrayMetadata(**{**fields, **members})


class ConsolidatedMetadata(Record):
    """The content of the consolidated metadata of a group, with zarr-python's names. metadata: the documents of the nodes by their paths below the group, as
    JSON."""

    metadata: Mapping[str, Json]
    kind: str = "inline"
    must_understand: bool = False


class GroupMetadata(NodeMetadata):
    """The metadata of one group. Raises MetadataError for attributes that are not JSON.

    attributes    plain JSON, copied; None: none
    consolidated  the member `consolidated_metadata` as it was found, or None. It repeats the documents of the nodes below: the code that changes
                  one removes it with `without_consolidated`
    zarr_format   the dialect of the document, under its name for users
    unknown       unknown members of the document that readers may ignore; they are written back
    implicit      the group has no document: it exists because there are nodes below it (draft of 2022, Group metadata)"""

    __slots__ = ("attributes", "consolidated", "implicit", "unknown", "zarr_format")
    node_type = "group"
    consolidated: Mapping[str, Json] | None
    zarr_format: ZarrFormat
    implicit: bool
    unknown: Mapping[str, Json]

    def __init__(
        self,
        *,
        attributes: Mapping[str, object] | None = None,
        consolidated: Mapping[str, Json] | None = None,
        zarr_format: ZarrFormat = 3,
        unknown: Mapping[str, object] | None = None,
        implicit: bool = False,
    ) -> None:
        self.attributes = json_object({} if attributes is None else attributes, "attributes")
        self.consolidated = None if consolidated is None else copied(dict(consolidated))
        self.zarr_format = zarr_format
        self.unknown = json_object({} if unknown is None else unknown, None)
        self.implicit = implicit

    def members(self) -> dict[str, Json]:
        document: dict[str, Json] = {"zarr_format": self.zarr_format, **super().members()}
        if self.consolidated is not None:
            document["consolidated_metadata"] = cast("Json", self.consolidated)
        return {**document, **self.unknown}

    @property
    def consolidated_metadata(self) -> ConsolidatedMetadata | None:
        """The documents in `consolidated`, or None if the document of the group has none. Those of Zarr v2 are in a separate document, .zmetadata."""
        documents = None if self.consolidated is None else self.consolidated.get("metadata")
        # a copy, as cached nodes have the same documents
        return ConsolidatedMetadata(copied(documents)) if isinstance(documents, dict) else None

    def with_attributes(self, attributes: Mapping[str, object]) -> GroupMetadata:
        """The same group with these attributes instead of its own; it then has a document."""
        return self.with_plain_members(attributes=json_object(attributes, "attributes"), implicit=False)

    def without_consolidated(self) -> GroupMetadata:
        """The same group without the copies of the documents below it."""
        return self.with_consolidated(None)

    def with_consolidated(self, consolidated: Mapping[str, Json] | None) -> GroupMetadata:
        """The same group with these copies of the documents below it, in the form of its dialect. They are not copied."""
        return self.with_plain_members(consolidated=consolidated, implicit=False)


_BESIDE_SHAPE: Final = attrgetter(*[name for name in ArrayMetadata.__slots__ if name not in ("shape", "attributes")])


Metadata: TypeAlias = ArrayMetadata | GroupMetadata


def _check_grid(grid: ChunkGrid, shape: tuple[int, ...]) -> None:
    if type(grid) is RegularGrid:  # true for nearly all grids
        grid.check(shape, "chunk_grid")
        return
    with ExtensionCall("chunk grid", type(grid).__name__, "chunk_grid"):
        grid.check(shape, "chunk_grid")


def _dimension_names(names: Iterable[str | None] | None, ndim: int) -> tuple[str | None, ...] | None:
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise refusal("dimension_names", "a sequence of names", names)
    checked = tuple(names)
    if len(checked) != ndim:
        raise refusal("dimension_names", f"{ndim} names, one for each dimension", list(checked))
    for at, name in enumerate(checked):
        if name is not None and not isinstance(name, str):
            raise refusal(item("dimension_names", at), "a string or null", name)
    return checked
