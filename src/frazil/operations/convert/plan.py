"""Plans a conversion to another dialect: how the bytes of each array move, and the new document of each node. Pure.

One error lists everything that the other dialect cannot express. chunk_move.py moves chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from json import loads
from typing import Final, Literal

from frazil.array.compiled_array import chunk_spec
from frazil.array.creation.defaults import default_codecs, draft_codecs
from frazil.base.record import Record
from frazil.base.reports import counted
from frazil.codecs.array_to_bytes.bytes import Bytes
from frazil.codecs.array_to_bytes.sharding_indexed import ShardingIndexed
from frazil.codecs.chain.compilation import compile_chain
from frazil.codecs.codec import Codec, resolve
from frazil.codecs.registry import Registry
from frazil.errors import ConversionError, FrazilError, InvalidInputError, one_line
from frazil.metadata.draft.emitter import draft_keys
from frazil.metadata.draft.parser import MEMBERS
from frazil.metadata.extensions import Extension, parse_extensions
from frazil.metadata.grids.chunk_grids import RegularGrid
from frazil.metadata.grids.chunk_keys import ChunkKeyEncoding, DefaultKeys, SeparatedKeys, V2Keys
from frazil.metadata.json_text import Json, dump_json
from frazil.metadata.model import ArrayMetadata, GroupMetadata, Metadata, ZarrFormat
from frazil.metadata.paths import check_draft_name
from frazil.metadata.types.core import RAW_BYTES, DataType, RawType, raw_type
from frazil.operations.convert.hierarchy_keys import Hierarchy
from frazil.operations.convert.missing_values import Masking, masking

Way = Literal["bytes", "shard index", "recoded"]

_NAMES: Final[dict[ZarrFormat, str]] = {
    3: "final Zarr v3",
    2: "Zarr v2",
    "draft": "the draft of December 2022",
    "draft-2021": "the older dialect of the draft",
}
_ENTRY_MEMBERS: Final = frozenset({"zarr_format", "metadata_encoding", "metadata_key_suffix"})
_OLD_MEMBERS: Final = frozenset({*MEMBERS, "compressor", "dimension_separator", "shards", "shard_format"})
_V2_MEMBERS: Final = frozenset(
    {"zarr_format", "shape", "chunks", "dtype", "compressor", "fill_value", "order", "filters", "dimension_separator"}
)
_SHARDS: Final = "sharding_indexed"
_LITTLE: Final[Json] = [{"name": "bytes", "configuration": {"endian": "little"}}]
_SHOWN: Final = 20  # refusals in the text of an error


class Refusal(Record):
    """A fact that the other dialect cannot express. path: of the node; member: of its document, if there is one."""

    path: str
    member: str | None
    reason: str

    def __str__(self) -> str:
        return one_line(f"/{self.path}{f' {self.member}' if self.member else ''}: {self.reason}")


class ArrayPlan(Record):
    """One array. way: its chunks keep all bytes; its shards keep all bytes except the index; or they are decoded and encoded again. whole: the target if all
    its chunks are stored, None: the same (missing_values.py)."""

    path: str
    source: ArrayMetadata
    target: ArrayMetadata
    way: Way
    whole: ArrayMetadata | None = None


class Plan(Record):
    """A conversion. nodes, made: the old and the new nodes by path; documents: keys and values, the entry document last."""

    source: Hierarchy
    target: Hierarchy
    nodes: Mapping[str, Metadata]
    made: Mapping[str, Metadata]
    arrays: Mapping[str, ArrayPlan]
    documents: tuple[tuple[str, bytes], ...]

    def with_whole(self, paths: Sequence[str]) -> Plan:
        """The plan where all chunks of these arrays are stored."""
        documents = dict[str, bytes | None](self.documents)
        for path in paths:
            whole = self.arrays[path].whole
            if whole is not None:
                documents |= _documents(self.target, path, whole, self.target.layout.emit(whole))
        return self._replace(documents=tuple([(key, value) for key, value in documents.items() if value is not None]))


def plan_conversion(
    nodes: Mapping[str, Metadata | FrazilError],
    source: Hierarchy,
    target: Hierarchy,
    registry: Registry,
    *,
    recode: bool,
    chunk_keys: ChunkKeyEncoding | None = None,
) -> Plan:
    """nodes: all nodes of the hierarchy, or the error of a document; chunk_keys: for every new array; None: as in the old one. Raises ConversionError, with
    everything that cannot be expressed."""
    refusals = [*_entry_refusals(source)]
    created: dict[str, Metadata] = {}
    arrays: dict[str, ArrayPlan] = {}
    documents: list[tuple[str, bytes]] = []
    translated: dict[str, Metadata] = {}
    for path, node in nodes.items():
        if isinstance(node, FrazilError):
            refusals.append(Refusal(path, node.path, node.message))
            continue
        translated[path] = node
        refusals += _name_refusals(path, target)
        maker = _Maker(path, node, source, target, registry, recode, chunk_keys)
        refusals += maker.refusals
        if maker.made is None:
            continue
        created[path] = maker.made
        if maker.value is not None:
            found = _documents(target, path, maker.made, maker.value)
            documents += [(key, value) for key, value in found.items() if value is not None]
        if isinstance(node, ArrayMetadata) and isinstance(maker.made, ArrayMetadata):
            arrays[path] = ArrayPlan(path, node, maker.made, maker.way, maker.whole)
    refusals += _clashes([key for key, _ in documents])
    if refusals:
        codecs = any((refusal.member or "").startswith("codecs") for refusal in refusals)
        raise _refused(
            refusals,
            f"{_NAMES[target.layout.zarr_format]} cannot express {counted(len(refusals), 'part')} of this hierarchy",
            "recode=True decodes such arrays and encodes them again with other codecs"
            if codecs and not recode
            else "change or remove them first",
        )
    entry = target.layout.entry()
    if entry is not None:
        documents.append(entry)
    documents.sort(key=lambda document: document[0] == target.entry_key)
    return Plan(source, target, translated, created, arrays, tuple(documents))


def _documents(target: Hierarchy, path: str, node: Metadata, value: bytes) -> dict[str, bytes | None]:
    """The documents of a node, None for one that it does not have. value: of the first one"""
    beside = target.layout.attributes_key(target.at(path))
    documents: dict[str, bytes | None] = {target.document_key(path, node): value}
    return documents if beside is None else {**documents, beside: target.layout.emit_attributes(node)}


def check_in_place(plan: Plan) -> None:
    """Raises ConversionError where keys of final Zarr v3 and of a draft conflict, as equal keys or as a key and a folder."""
    tops = {path.partition("/")[0]: path for path in plan.nodes if path}
    reason = "keys of both dialects would be in the same place"
    between = f"{_NAMES[plan.source.layout.zarr_format]} and {_NAMES[plan.target.layout.zarr_format]}"
    refusals = [
        Refusal(tops[name], None, f"{reason}, as its path begins with {name}")
        for name in ("meta", "data")
        if name in tops
    ]
    old = {plan.source.document_key(path, node) for path, node in plan.nodes.items()} - {plan.source.entry_key}
    new = {key for key, _ in plan.documents} - {plan.target.entry_key}
    both = [*old, *new]
    refusals += [Refusal("", None, f"{reason}: {key}") for key in sorted(old & new)]
    refusals += _clashes(list(dict.fromkeys(both)))
    if refusals:
        raise _refused(
            refusals,
            f"between {between} this hierarchy cannot be converted in place, for {counted(len(refusals), 'reason')}",
            "convert it to another location; in place, one draft is converted into the other through final Zarr v3",
        )


def check_kept_chunks(plan: Plan) -> None:
    """Raises ConversionError for arrays whose new chunks would replace their old ones: encoded again, from or to Zarr v2, in place."""
    refusals = [
        Refusal(path, "codecs", "its chunks would be replaced one by one by chunks of the same keys")
        for path, array in plan.arrays.items()
        if array.way == "recoded" and array.source.chunk_key_encoding == array.target.chunk_key_encoding
    ]
    if refusals:
        raise _refused(
            refusals,
            f"this hierarchy cannot be converted in place, for {counted(len(refusals), 'array')}",
            "convert it to another location",
        )


class _Maker:
    """Converts one node. made, value: the new node and its document (None for a group without one); refusals: facts that cannot be expressed."""

    def __init__(
        self,
        path: str,
        node: Metadata,
        source: Hierarchy,
        target: Hierarchy,
        registry: Registry,
        recode: bool,
        chunk_keys: ChunkKeyEncoding | None,
    ) -> None:
        self._chunk_keys = chunk_keys
        self.path, self._target, self._registry = path, target, registry
        self.refusals: list[Refusal] = []
        self.made: Metadata | None = None
        self.value: bytes | None = None
        self.way: Way = "bytes"
        self.whole: ArrayMetadata | None = None
        self._fill_is_null = False  # in the document of Zarr v2
        same = source.layout.zarr_format == target.layout.zarr_format
        if isinstance(node, GroupMetadata):
            self._group(node, same)
        else:
            self._array(node, same, recode)

    def _refuse(self, member: str | None, reason: str) -> None:
        self.refusals.append(Refusal(self.path, member, reason))

    def _group(self, node: GroupMetadata, same: bool) -> None:
        layout = self._target.layout
        if not same:
            for name, value in node.unknown.items():
                if value not in ([], {}, None):
                    self._refuse(name, _unknown(layout.zarr_format))
        implicit = node.implicit and layout.implicit_groups
        document = (
            node
            if same
            else GroupMetadata(attributes=node.attributes, zarr_format=layout.zarr_format, implicit=implicit)
        )
        emitted = self._emitted(document)
        if isinstance(emitted, bytes):
            self.made, self.value = document, None if implicit else emitted
        else:
            self._refuse(emitted.path, emitted.message)

    def _array(self, node: ArrayMetadata, same: bool, recode: bool) -> None:
        for i, transformer in enumerate(node.storage_transformers):
            self._refuse(f"storage_transformers[{i}]", f"what {transformer.name} stores cannot be known without it")
        document = self._kept(node) if same else self._translated(node)
        value = self._emitted(document)
        if not isinstance(value, bytes) and (value.path or "").startswith("codecs"):
            plain = self._with_defaults(document, node.zarr_format)
            second = value if plain is None else self._emitted(plain)
            if recode and plain is not None and isinstance(second, bytes):
                document, value, self.way = plain, second, "recoded"
            elif not isinstance(second, bytes) and not (second.path or "").startswith("codecs"):
                self._refuse(second.path, second.message)
        if not isinstance(value, bytes):
            self._refuse(value.path, value.message)
            return
        for member in _differences(document, self._read_back(document, value)):
            reason = f"{_NAMES[document.zarr_format]} cannot express it exactly"
            if member == "data_type" and node.data_type.element != node.data_type.dtype:
                reason = f"{_NAMES[document.zarr_format]} has no data type for elements that are {node.data_type.label}"
            self._refuse(member, reason)
        if self.way == "bytes" and document.codecs not in (node.codecs, _rewritten(node.codecs, _without_idle)):
            self.way = "shard index"
        self.made, self.value = document, value
        if not same and document.zarr_format == 2 and not self._fill_is_null:
            self.whole = self._if_whole(node, document)

    def _if_whole(self, node: ArrayMetadata, document: ArrayMetadata) -> ArrayMetadata | None:
        """The array if all its chunks are stored; None if it is the same then."""
        masked = masking(node, 2, whole=True)
        if not masked.is_null:
            return None
        self._fill_is_null = True
        changed = document.with_members(attributes=masked.attributes)
        value = self._emitted(changed)
        found = self._read_back(changed, value) if isinstance(value, bytes) else value
        return found if isinstance(found, ArrayMetadata) else None

    def _kept(self, node: ArrayMetadata) -> ArrayMetadata:
        """The array of the same dialect."""
        if self._chunk_keys in (None, node.chunk_key_encoding):
            return node
        return _with(node, codecs=node.codecs, dimension_names=node.dimension_names, keys=self._chunk_keys)

    def _translated(self, node: ArrayMetadata) -> ArrayMetadata:
        """The array in the other dialect, without facts that have no member there, which are refused."""
        to = self._target.layout.zarr_format
        for name in _extras(node, self._registry):
            self._refuse(name, _unknown(to))
        names = node.dimension_names
        if to not in (2, 3) and any(name is not None for name in names or ()):
            self._refuse("dimension_names", f"{_NAMES[to]} has no member for them; keep them as an attribute")
        codecs = node.codecs
        if to != 3:
            codecs = _rewritten(_rewritten(codecs, _without_idle), _with_plain_index)
        masked = masking(node, to)
        self._fill_is_null = masked.is_null
        return _with(
            node,
            codecs=codecs,
            masked=masked,
            dimension_names=names if to in (2, 3) else None,
            data_type=_renamed(node.data_type, to),
            keys=self._chunk_keys or _keys(node.chunk_key_encoding, node.zarr_format, to),
            zarr_format=to,
        )

    def _with_defaults(self, metadata: ArrayMetadata, old: ZarrFormat) -> ArrayMetadata | None:
        if not isinstance(metadata.chunk_grid, RegularGrid):
            return None
        try:
            # chunks of Zarr v2 get other keys, so that new chunks are never confused with old ones
            keys = DefaultKeys("/") if old == 2 and metadata.zarr_format == 3 else None
            codecs = _defaults(metadata, metadata.chunk_grid, self._registry)
            return _with(metadata, codecs=codecs, dimension_names=metadata.dimension_names, keys=keys)
        except InvalidInputError:
            return None

    def _emitted(self, metadata: Metadata) -> bytes | FrazilError:
        try:
            self._target.layout.emit_attributes(metadata)  # may refuse attributes
            value = self._target.layout.emit(metadata)
            return dump_json({**loads(value), "fill_value": None}, 4) if self._fill_is_null else value
        except InvalidInputError as error:
            return error

    def _read_back(self, metadata: ArrayMetadata, value: bytes) -> ArrayMetadata | FrazilError:
        try:
            layout, key = self._target.layout, self._target.document_key(self.path, metadata)
            read = layout.parse(key, value, self._registry, layout.emit_attributes(metadata))
        except InvalidInputError as error:
            return error
        assert isinstance(read, ArrayMetadata)
        return read


def _with(
    metadata: ArrayMetadata,
    *,
    codecs: tuple[Extension, ...],
    masked: Masking | None = None,
    dimension_names: tuple[str | None, ...] | None = None,
    data_type: DataType | None = None,
    keys: ChunkKeyEncoding | None = None,
    zarr_format: ZarrFormat | None = None,
) -> ArrayMetadata:
    """The array with other codecs, without members from a stored document."""
    grid = metadata.chunk_grid
    return ArrayMetadata(
        shape=metadata.shape,
        data_type=data_type or metadata.data_type,
        fill_value=(masked or metadata).fill_value,
        # a draft's grid that is regular becomes a plain regular grid
        chunk_grid=RegularGrid(grid.chunk_shape) if isinstance(grid, RegularGrid) else grid,
        chunk_key_encoding=keys or metadata.chunk_key_encoding,
        codecs=codecs,
        attributes=(masked or metadata).attributes,
        dimension_names=dimension_names,
        zarr_format=zarr_format or metadata.zarr_format,
    )


def _keys(keys: ChunkKeyEncoding, of: ZarrFormat, to: ZarrFormat) -> ChunkKeyEncoding:
    if to == 2:
        return V2Keys(keys.separator if isinstance(keys, SeparatedKeys) else ".")
    if to != 3:
        return draft_keys(keys, old=to == "draft-2021")
    return keys if of in (2, 3) else DefaultKeys(keys.separator if isinstance(keys, SeparatedKeys) else "/")


def _renamed(data_type: DataType, to: ZarrFormat) -> DataType:
    """The data type, with opaque bytes under the name that programs of the dialect read: r* in the drafts; in final Zarr v3 zarr-python only reads
    raw_bytes."""
    if not isinstance(data_type, RawType):
        return data_type
    return RawType(RAW_BYTES, data_type.dtype) if to == 3 else raw_type(data_type.itemsize)


def _rewritten(
    codecs: Sequence[Extension], change: Callable[[list[dict[str, Json]]], list[dict[str, Json]]]
) -> tuple[Extension, ...]:
    """A chain after a change to its codecs as objects of a document: first to those of inner chunks, then to those of shards."""

    def changed(entries: Json) -> list[dict[str, Json]]:
        objects = [extension.to_json() for extension in parse_extensions(entries, "codecs")]
        for entry in objects:
            configuration = entry.get("configuration")
            if entry["name"] == _SHARDS and isinstance(configuration, dict):
                configuration["codecs"] = list[Json](changed(configuration.get("codecs")))
        return change(objects)

    return parse_extensions(list[Json](changed([codec.to_json() for codec in codecs])), "codecs")


def _without_idle(entries: list[dict[str, Json]]) -> list[dict[str, Json]]:
    """Codecs without transpositions that change nothing, which are layout C in the draft."""
    return [entry for entry in entries if not _is_idle(entry)]


def _is_idle(codec: dict[str, Json]) -> bool:
    configuration = codec.get("configuration")
    order = configuration.get("order") if codec["name"] == "transpose" and isinstance(configuration, dict) else None
    return isinstance(order, list) and order == list(range(len(order)))


def _with_plain_index(entries: list[dict[str, Json]]) -> list[dict[str, Json]]:
    """Codecs with each shard index at the end, little-endian and without a checksum, as in the draft."""
    for entry in entries:
        configuration = entry.get("configuration")
        if entry["name"] == _SHARDS and isinstance(configuration, dict):
            configuration.update(index_codecs=_LITTLE, index_location="end")
    return entries


def _defaults(metadata: ArrayMetadata, grid: RegularGrid, registry: Registry) -> tuple[Extension, ...]:
    """The default codecs of the target for the innermost chunks, inside shards if the array has shards now. Raises InvalidInputError."""
    spec = chunk_spec(metadata.data_type, grid.chunk_shape, metadata.fill_value)
    old = compile_chain(registry.parse_codecs(metadata.codecs), spec)
    inner = spec._replace(shape=old.inner_chunk.shape)
    codecs = (
        *registry.parse_codecs([metadata.data_type.serializer]),
        *(default_codecs if metadata.zarr_format == 3 else draft_codecs)(spec.dtype),
    )
    chain: tuple[Codec, ...] = resolve(codecs, inner)
    if old.levels and metadata.zarr_format != 2:  # in Zarr v2 a whole shard becomes a chunk
        chain = (ShardingIndexed(inner.shape, chain, [Bytes("little")]),)
    return tuple(codec.extension() for codec in chain)


def _differences(metadata: ArrayMetadata, read: ArrayMetadata | FrazilError) -> Iterator[str]:
    """Members whose meaning a document loses. Codecs are compared by kind only, not by settings such as the level."""
    if isinstance(read, FrazilError):
        yield read.path or "document"
        return
    if metadata.data_type != read.data_type:
        yield "data_type"
    elif metadata.fill_value.data != read.fill_value.data:
        yield "fill_value"
    for name in ("shape", "chunk_grid", "chunk_key_encoding", "attributes", "dimension_names"):
        if getattr(metadata, name) != getattr(read, name):
            yield name
    if [codec.name for codec in metadata.codecs] != [codec.name for codec in read.codecs]:
        yield "codecs"


def _extras(node: ArrayMetadata, registry: Registry) -> Iterator[str]:
    """Members of a document that only its own dialect has, with facts that are not in the metadata."""
    yield from node.unknown
    for name, value in (node.document or {}).items():
        if name == "extensions" and isinstance(value, list):
            for i, entry in enumerate(value):
                uri = entry.get("extension") if isinstance(entry, dict) else None
                if not (isinstance(uri, str) and registry.draft.array_extension(uri)):
                    yield f"extensions[{i}]"
        elif name not in (_V2_MEMBERS if node.zarr_format == 2 else _OLD_MEMBERS) and value not in ([], {}, None):
            yield name


def _entry_refusals(source: Hierarchy) -> Iterator[Refusal]:
    entry = source.layout.entry()
    if entry is None:
        return
    document = loads(entry[1])
    for name, value in document.items():
        if name not in _ENTRY_MEMBERS and value not in ([], {}, None):
            yield Refusal(
                "",
                f"{name} of zarr.json",
                "it belongs to the hierarchy as a whole, and only its own dialect has a member for it",
            )


def _name_refusals(path: str, target: Hierarchy) -> Iterator[Refusal]:
    # Frazil reads names in the older dialect that programs of the dialect refuse
    check = target.layout.check_name if target.layout.zarr_format in (2, 3) else check_draft_name
    for name in path.split("/") if path else []:
        try:
            check(name)
        except InvalidInputError as error:
            yield Refusal(path, None, error.message)


def _clashes(keys: list[str]) -> Iterator[Refusal]:
    """Keys that would also be folders of other keys: no file system has both."""
    files = set(keys)
    for key in keys:
        end = key.rfind("/")
        while end >= 0:
            if key[:end] in files:
                yield Refusal("", None, f"{key[:end]} would be a document and the folder of {key}")
            end = key.rfind("/", 0, end)


def _unknown(to: ZarrFormat) -> str:
    return f"{_NAMES[to]} has no member for it"


def _refused(refusals: list[Refusal], subject: str, hint: str) -> ConversionError:
    shown = "; ".join(map(str, refusals[:_SHOWN]))
    more = f"; and {len(refusals) - _SHOWN} more" if len(refusals) > _SHOWN else ""
    error = ConversionError(f"{subject}; nothing was written. {shown}{more}", hint=hint)
    error.refusals = tuple(refusals)
    return error
