"""The registry of codecs, data types, chunk grids, chunk key encodings and storage transformers. A value, passed in when something
is opened or created. A user extends it with `with_codec` and similar methods, which return a new one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Never

from frazil.codecs.builtin_codecs import BUILTIN_CODECS, LateCodec
from frazil.codecs.codec import ArrayToArray, ArrayToBytes, BytesToBytes, Codec
from frazil.errors import InvalidInputError, MetadataError, UnknownExtensionError
from frazil.metadata.draft import extensions as draft_extensions
from frazil.metadata.extension_guard import ExtensionCall
from frazil.metadata.extensions import (
    Extension,
    ExtensionFamily,
    look_up,
    not_registered,
    parse_extension,
    parse_extensions,
    suggestion,
)
from frazil.metadata.grids.chunk_grids import ChunkGrid
from frazil.metadata.grids.chunk_keys import ChunkKeyEncoding
from frazil.metadata.json_text import as_json, item
from frazil.metadata.registry import CORE_EXTENSIONS, MetadataExtensions
from frazil.metadata.result_cache import ResultCache
from frazil.metadata.types.core import DataTypeFamily
from frazil.metadata.value import Value, assign

if TYPE_CHECKING:
    from frazil.metadata.draft.extensions import ArrayExtension, DraftExtensions, MemoryLayout, MetadataEncodingReader

# Never: it is a Store, which this package does not import. From (its entry in the document, a store) to the store that an array's chunks are read from and
# written to; those of the draft of 2022 have their URI as name, and `type` and `configuration` in the configuration. A generic extension of a hierarchy
# of the draft is the same, for all of its keys except zarr.json.
StorageTransformer = Callable[[Extension, Never], object]
# From a store to a store: a transformer that a user adds when an array is opened. It is not written into the document
RuntimeTransformer = Callable[[Never], object]


class Registry(Value, excluded=("compiled",)):
    """codecs: by name, as pairs; metadata: data types, chunk grids and chunk key encodings; storage_transformers: by name, as pairs;
    draft: extensions that only documents of the draft of 2022 can name; hierarchy_extensions: generic ones of its zarr.json, by URI, as pairs;
    compiled: cached results of compilation with this registry, not part of the value."""

    __slots__ = ("_codecs", "_draft", "compiled", "hierarchy_extensions", "metadata", "storage_transformers")
    _codecs: tuple[tuple[str, type[Codec] | LateCodec], ...]
    metadata: MetadataExtensions
    storage_transformers: tuple[tuple[str, StorageTransformer], ...]
    _draft: DraftExtensions | None
    hierarchy_extensions: tuple[tuple[str, StorageTransformer], ...]
    compiled: ResultCache

    def __repr__(self) -> str:
        """A short form for signatures: the number of known extensions."""
        return f"<frazil.Registry of {len(self._codecs)} codecs>"

    def __init__(
        self,
        codecs: Iterable[tuple[str, type[Codec] | LateCodec]],
        metadata: MetadataExtensions = CORE_EXTENSIONS,
        storage_transformers: Iterable[tuple[str, StorageTransformer]] = (),
        draft: DraftExtensions | None = None,
        hierarchy_extensions: Iterable[tuple[str, StorageTransformer]] = (),
    ) -> None:
        self._codecs = tuple(codecs)
        self.metadata = metadata
        self.storage_transformers = tuple(storage_transformers)
        self._draft = draft if draft is not None and any(draft) else None
        self.hierarchy_extensions = tuple(hierarchy_extensions)
        self.compiled = ResultCache()

    def _with(self, **fields: object) -> Registry:
        """With these fields instead of its own."""
        registry = object.__new__(Registry)
        for name, value in {**dict(self._fields()), "compiled": ResultCache(), **fields}.items():
            assign(registry, name, value)
        return registry

    @property
    def draft(self) -> DraftExtensions:
        """Extensions that only documents of the draft of 2022 can name."""
        return draft_extensions.DraftExtensions() if self._draft is None else self._draft

    @property
    def codecs(self) -> tuple[tuple[str, type[Codec]], ...]:
        """By name, as pairs; the first one of a name is used."""
        return tuple((name, _loaded(codec)) for name, codec in self._codecs)

    def with_codec(self, codec: type[Codec], name: str | None = None) -> Registry:
        """With one more codec, under its own name or another; it replaces one of that name. Raises InvalidInputError if it is not a codec."""
        if not (isinstance(codec, type) and issubclass(codec, ArrayToArray | ArrayToBytes | BytesToBytes)):
            raise InvalidInputError(
                f"{codec!r} is not a codec: a class derived from ArrayToArray, ArrayToBytes or BytesToBytes"
            )
        return self._with(_codecs=((name or codec.name, codec), *self._codecs))

    def with_data_type(self, family: DataTypeFamily) -> Registry:
        """With one more data type. In the draft of 2022 its name is a URI, and `type` is in its configuration."""
        return self._with(metadata=self.metadata.with_data_type(family))

    def without_fallbacks(self) -> Registry:
        """With an error for data types that are not registered, even if their document names a fallback (draft of 2022, Array metadata, data_type)."""
        return self._with(metadata=self.metadata.without_fallbacks())

    def without_warnings(self) -> Registry:
        """The same without a FallbackWarning, for documents whose fallbacks were reported when they were opened."""
        return self.metadata.parsed.get_or_make(
            (self,), lambda: self._with(metadata=self.metadata.without_warnings()), Registry
        )

    def with_chunk_grid(self, family: ExtensionFamily[ChunkGrid]) -> Registry:
        """With one more chunk grid. Arrays can be read and written through it if its chunks have one shape: if it is a RegularGrid, or has an attribute
        `chunk_shape`. In the draft of 2022 its name is a URI, and the other members are in its configuration; it may have its own `chunk_key_encoding`."""
        return self._with(metadata=self.metadata.with_chunk_grid(family))

    def with_chunk_key_encoding(self, family: ExtensionFamily[ChunkKeyEncoding]) -> Registry:
        """With one more chunk key encoding."""
        return self._with(metadata=self.metadata.with_chunk_key_encoding(family))

    def with_storage_transformer(self, name: str, transformer: StorageTransformer) -> Registry:
        """With one more storage transformer: from (its entry, the store behind it) to the store to use. It gets only the keys of chunks.
        It returns a Store, preferably a WrappedStore, or an object that frazil.stores.adapt takes."""
        return self._with(storage_transformers=((name, transformer), *self.storage_transformers))

    def with_memory_layout(self, uri: str, layout: MemoryLayout) -> Registry:
        """With one more memory layout for documents of the draft of 2022: from (its entry, the shape of a chunk) to the array-to-array codecs that
        convert a chunk to it."""
        return self._with(_draft=self.draft._replace(memory_layouts=((uri, layout), *self.draft.memory_layouts)))

    def with_array_extension(self, uri: str, extension: ArrayExtension) -> Registry:
        """With one more generic extension of arrays for documents of the draft of 2022: from (its entry, the metadata without it) to the metadata with it.
        Only the shape and attributes of an array are written later."""
        return self._with(_draft=self.draft._replace(array_extensions=((uri, extension), *self.draft.array_extensions)))

    def with_metadata_encoding(self, uri: str, encoding: MetadataEncodingReader) -> Registry:
        """With one more encoding of the documents of nodes for hierarchies of the draft of 2022: from its entry to a MetadataEncoding."""
        return self._with(
            _draft=self.draft._replace(metadata_encodings=((uri, encoding), *self.draft.metadata_encodings))
        )

    def with_hierarchy_extension(self, uri: str, extension: StorageTransformer) -> Registry:
        """With one more generic extension of hierarchies of the draft of 2022: from (its entry, the store) to the store to use for all keys except
        zarr.json."""
        return self._with(hierarchy_extensions=((uri, extension), *self.hierarchy_extensions))

    def hierarchy_extension(self, uri: str) -> StorageTransformer | None:
        """None if it is not known; the document decides whether that is an error."""
        return look_up(self.hierarchy_extensions, uri)

    def _codec(self, name: str) -> type[Codec] | None:
        codec = look_up(self._codecs, name)
        return None if codec is None else _loaded(codec)

    def codec_kind(self, name: str) -> int | None:
        """0: array to array, 1: array to bytes, 2: bytes to bytes; None: no codec of this name."""
        codec = self._codec(name)
        return None if codec is None else codec._part

    def parse_codecs(self, extensions: Sequence[Extension], path: str = "codecs") -> tuple[Codec, ...]:
        """The codecs of a document. Raises UnknownExtensionError, MetadataError that names the member."""
        return tuple(self._parse(extension, item(path, i)) for i, extension in enumerate(extensions))

    def codecs_from_user(self, codecs: object, path: str = "codecs") -> tuple[Codec, ...]:
        """Codecs in the forms that users write: Codec values, Extensions, objects of a document, or names."""
        if isinstance(codecs, str | Codec | Extension | Mapping) or not isinstance(codecs, Iterable):
            names = ["auto", *(name for name, _ in self._codecs)]
            alike = suggestion(codecs, names) if isinstance(codecs, str) else None
            hint = 'codecs="auto" chooses; codecs=[] stores raw bytes; codecs=["zstd"] is a list of one'
            raise MetadataError(
                f"codecs is {codecs!r}; it must be a list of codecs", path=path, hint=f"{alike or ''} {hint}".lstrip()
            )
        parsed = []
        for i, codec in enumerate(codecs):
            member_path = item(path, i)
            if not isinstance(codec, Codec | Extension):
                codec = parse_extension(as_json(codec, member_path), member_path)
            parsed.append(codec if isinstance(codec, Codec) else self._parse(codec, member_path))
        return tuple(parsed)

    def transformer(self, extension: Extension, path: str) -> StorageTransformer:
        """The storage transformer of an entry; UnknownExtensionError if none has its name."""
        transformer = look_up(self.storage_transformers, extension.name)
        if transformer is None:
            names = [name for name, _ in self.storage_transformers]
            raise not_registered("storage transformer", extension.name, names, path)
        return transformer

    def _parse(self, extension: Extension, path: str) -> Codec:
        codec = self._codec(extension.name)
        if codec is None:
            raise not_registered("codec", extension.name, [name for name, _ in self._codecs], path)
        configuration, member_path = extension.configuration, f"{path}.configuration"
        for member in codec.required:
            if member not in configuration:
                raise MetadataError(
                    f"{member} is required by codec {extension.name}, but missing", path=f"{member_path}.{member}"
                )
        allowed = (*codec.required, *codec.optional)
        for member in configuration:
            if member not in allowed:
                raise MetadataError(
                    f"{member} is not a member of codec {extension.name} (allowed: {', '.join(allowed) or 'none'})",
                    path=f"{member_path}.{member}",
                )

        def parse(value: object, member: str) -> tuple[Codec, ...]:
            # the path of an error inside is prefixed below, like that of any member
            return self.parse_codecs(parse_extensions(value, member), member)  # type: ignore[arg-type] # refused if it is not a list

        try:
            with ExtensionCall("codec", extension.name, None) as call:
                result: object = codec.from_configuration(configuration, parse)
                if not isinstance(result, Codec):
                    raise call.wrong(result, "a codec")
                return result
        except (MetadataError, UnknownExtensionError) as error:
            error.path = member_path if error.path is None else f"{member_path}.{error.path}"
            raise


def _loaded(codec: type[Codec] | LateCodec) -> type[Codec]:
    return codec.load() if isinstance(codec, LateCodec) else codec


DEFAULT_REGISTRY: Final = Registry(BUILTIN_CODECS)
