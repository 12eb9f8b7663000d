"""The entry point `zarr.json` of a hierarchy of the 2022 draft, in both dialects (draft of 2022, Entry point metadata), and how the two are distinguished.

Documents of nodes are in parser.py, their keys in layout.py."""

from __future__ import annotations

import re
from typing import Final

from frazil.base.record import Record
from frazil.errors import UnknownExtensionError
from frazil.metadata.draft.extensions import MetadataEncoding
from frazil.metadata.extension_guard import ExtensionCall, with_methods
from frazil.metadata.extensions import Extension, is_extension_name
from frazil.metadata.json_text import Json, dump_json, found, item, parse_json, spelt_out
from frazil.metadata.layout import KnownExtensions
from frazil.metadata.members import Members, check_object, refusal
from frazil.metadata.value import Value

CORE_URI: Final = "https://purl.org/zarr/spec/core/3.0"
OLD_CORE_URI: Final = "https://purl.org/zarr/spec/protocol/core/3.0"
PROTOTYPE: Final = "application/json"  # the metadata_encoding of prototypes of 2020, which had no suffix
_CORE: Final = re.compile(r"https?://purl\.org/zarr/spec/(?:protocol/)?core/(\d+)\.(\d+)")
_SUFFIX: Final = re.compile(r"[a-zA-Z0-9._-]*")


class JsonEncoding(Value):
    """Documents of nodes as JSON text, the core's only encoding. lenient: NaN and Infinity without quotes in attributes, which programs of the older dialect
    wrote, are read as NonFinite, and written; they are not JSON. Otherwise numbers that are not finite are written as strings."""

    __slots__ = ("lenient",)
    lenient: bool

    def __init__(self, lenient: bool = False) -> None:
        self.lenient = lenient

    def encode(self, document: dict[str, Json]) -> bytes:
        return dump_json(document if self.lenient else check_object(spelt_out(document), None))

    def decode(self, value: bytes) -> Json:
        return parse_json(value, free=frozenset({"attributes"} if self.lenient else ()))


class HierarchyExtension(Record):
    """An entry of `extensions`, in zarr.json or in the document of an array. extension: the URI and its configuration."""

    extension: Extension
    must_understand: bool
    path: str


class Entry(Record):
    """The content of zarr.json. old: the dialect of 2021, whose keys have `root` in them; suffix: of the keys of documents."""

    old: bool
    suffix: str
    encoding: MetadataEncoding
    extensions: tuple[HierarchyExtension, ...]
    document: dict[str, Json]

    @property
    def strict(self) -> bool:
        """Whether unknown members of documents are refused. A later minor version than 3.0 may define more, which readers ignore; programs of the older
        dialect wrote some of their own."""
        return not self.old and _core_version(str(self.document.get("zarr_format"))) == 0

    @property
    def prototype(self) -> bool:
        """Whether it is a prototype of 2020, before the draft had its key suffix and its names of chunks."""
        return self.document.get("metadata_encoding") == PROTOTYPE


def parse_entry(value: Json, extensions: KnownExtensions) -> Entry:
    """Raises MetadataError for an invalid entry point, UnknownExtensionError for a metadata encoding that is not registered."""
    members = Members(check_object(value, None), None)
    decoder: MetadataEncoding
    minor = _core_version(members.string("zarr_format"))
    encoding = members.get("metadata_encoding")
    old = isinstance(encoding, str)
    strict = not old and minor == 0
    inner_path = "metadata_key_suffix"
    if old:
        members.has("metadata_key_suffix")
        missing = "" if encoding == PROTOTYPE else ".json"
        suffix, decoder = members.string("metadata_key_suffix", missing), JsonEncoding(lenient=True)
    else:
        suffix, decoder = _read_encoding(encoding, extensions, strict)
        inner_path = "metadata_encoding.metadata_key_suffix"
    listed = members.array("extensions", []) if old else members.array("extensions")
    if strict:
        members.finish()
    if not _SUFFIX.fullmatch(suffix):
        raise refusal(inner_path, "of characters that a key may have", suffix)
    return Entry(old, suffix, decoder, parse_generic(listed, "extensions", strict=strict), dict(members.values))


def _core_version(uri: str) -> int:
    """The minor version of the core."""
    match = _CORE.fullmatch(uri)
    if match is None or match[1] != "3":
        raise refusal(
            "zarr_format",
            f"the integer 3, or {found(CORE_URI)} (draft of 2022, Entry point metadata)",
            uri,
            hint="the last part of the URI is the version; only versions 3.x can be read",
        )
    return int(match[2])


def _read_encoding(value: Json, extensions: KnownExtensions, strict: bool) -> tuple[str, MetadataEncoding]:
    members = Members(check_object(value, "metadata_encoding"), "metadata_encoding")
    if not members.has("extension"):
        members.choice("type", ["json"])
        suffix = members.choice("metadata_key_suffix", [".json"])
        if strict:
            members.finish()
        return suffix, JsonEncoding()
    uri, kind = members.string("extension"), members.string("type")
    suffix = members.string("metadata_key_suffix")
    extension = Extension(check_uri(uri, members.at("extension")), {"type": kind, **members.rest()})
    make = extensions.draft.metadata_encoding(extension, "metadata_encoding")
    call = ExtensionCall("metadata encoding", found(uri), "metadata_encoding")
    return suffix, _Guarded(with_methods(call, lambda: make(extension), ("encode", "decode"), "an encoding"), uri)


class _Guarded(Value):
    """A user's encoding. Its exceptions and wrong results become MetadataErrors."""

    __slots__ = ("inner", "uri")
    inner: MetadataEncoding
    uri: str

    def __init__(self, inner: MetadataEncoding, uri: str) -> None:
        self.inner, self.uri = inner, uri

    def _call(self) -> ExtensionCall:
        return ExtensionCall("metadata encoding", found(self.uri), None)

    def encode(self, document: dict[str, Json]) -> bytes:
        with self._call() as call:
            made: object = self.inner.encode(document)
            if not isinstance(made, bytes | bytearray | memoryview):
                raise call.wrong(made, "bytes")
            return bytes(made)

    def decode(self, value: bytes) -> Json:
        with self._call():
            return self.inner.decode(value)


def check_uri(value: str, path: str) -> str:
    """A URI that names an extension."""
    if ":" not in value or not is_extension_name(value):
        raise refusal(path, "a URI", value)
    return value


def parse_generic(values: list[Json], path: str, *, strict: bool) -> tuple[HierarchyExtension, ...]:
    """The generic extensions of zarr.json or of an array (draft of 2022, Entry point metadata, extensions)."""
    entries = []
    for at, value in enumerate(values):
        inner_path = item(path, at)
        members = Members(check_object(value, inner_path), inner_path)
        uri = check_uri(members.string("extension"), members.at("extension"))
        must_understand = members.boolean("must_understand")
        extension = Extension(uri, members.object("configuration", {}))
        if strict:
            members.finish()
        entries.append(HierarchyExtension(extension, must_understand, inner_path))
    return tuple(entries)


def not_understood(entry: HierarchyExtension, method: str) -> UnknownExtensionError:
    """The error for a generic extension that is not known, although readers must understand it."""
    return UnknownExtensionError(
        f"the extension {found(entry.extension.name)} is not registered, and its must_understand is true"
        " (draft of 2022, Extensions)",
        path=entry.path,
        hint=f"register it with Registry.{method}",
    )


def new_entry(*, old: bool) -> dict[str, Json]:
    """The entry point of a new hierarchy."""
    if old:  # the form of zarr-python 2, which reads no other
        return {
            "zarr_format": OLD_CORE_URI,
            "metadata_encoding": OLD_CORE_URI,
            "metadata_key_suffix": ".json",
            "extensions": [],
        }
    return {
        "zarr_format": CORE_URI,
        "metadata_encoding": {"type": "json", "metadata_key_suffix": ".json"},
        "extensions": [],
    }
