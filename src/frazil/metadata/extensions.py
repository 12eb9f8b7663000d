"""The extension value, and the entries of one kind in a registry (Zarr v3.1 core, Extension definition and Extension naming)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, Protocol, TypeVar, cast

from frazil.errors import MetadataError, UnknownExtensionError
from frazil.metadata.json_text import Json, copied, found, item, member
from frazil.metadata.members import Members, json_object, refusal
from frazil.metadata.value import Value, assign

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_FIRST_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
_LETTERS: Final = _FIRST_LETTERS + "0123456789-_."
_BEGINNING: Final = 4  # letters of a name that count as its beginning
_MEMBERS: Final = frozenset({"name", "configuration", "must_understand"})


class Extension(Value):
    """A name with its configuration, as documents hold it. An absent configuration and an empty one are the same.

    name             a registered name ("zstd", "numcodecs.adler32") or a URI with an authority or of the urn scheme
    configuration    plain JSON, copied
    must_understand  False where the document allows readers to ignore it
    Raises MetadataError for an invalid name or configuration; `path` names the member."""

    __slots__ = ("configuration", "must_understand", "name")
    name: str
    configuration: Mapping[str, Json]
    must_understand: bool

    def __init__(
        self,
        name: str,
        configuration: Mapping[str, object] | None = None,
        must_understand: bool = True,
        *,
        path: str | None = None,
    ) -> None:
        if not is_extension_name(name):
            raise refusal(
                member(path, "name"),
                "lower case letters, digits, '-', '_' and '.', two at least and a letter first (or a URI)",
                name,
            )
        assign(self, "name", name)
        inner_path = f"{path}.configuration" if path else "configuration"
        assign(self, "configuration", json_object(configuration, inner_path) if configuration else {})
        assign(self, "must_understand", must_understand)

    def to_json(self) -> dict[str, Json]:
        """The object form; `configuration` and `must_understand` only where they differ from the default."""
        return copied(self.members())

    def members(self) -> dict[str, Json]:
        """As to_json, with the configuration itself: to be read, not changed."""
        document: dict[str, Json] = {"name": self.name}
        # zarr-python requires a configuration, even an empty one, for the codecs of numcodecs
        if self.configuration or self.name.startswith("numcodecs."):
            document["configuration"] = cast("Json", self.configuration)
        if not self.must_understand:
            document["must_understand"] = False
        return document

    to_dict = to_json  # a name of zarr-python


def is_extension_name(name: object) -> bool:
    """Whether the name has a form that the core allows: registered, or a URI, which earlier versions of the core required."""
    if not isinstance(name, str):
        return False
    if len(name) >= 2 and name[0] in _FIRST_LETTERS and not name.strip(_LETTERS):
        return True
    scheme, _, scheme_path = name.partition(":")
    if not scheme or scheme[0].lower() not in _FIRST_LETTERS or scheme.lower().strip(_LETTERS + "+"):
        return False
    return (scheme_path.startswith("//") and len(scheme_path) > 2) or (scheme.lower() == "urn" and scheme_path != "")


def parse_extension(value: Json, path: str, *, may_ignore: bool = True) -> Extension:
    """An extension in either form: an object with `name`, or a name alone.

    may_ignore  whether `"must_understand": false` is allowed; not for data types, chunk grids and chunk key encodings"""
    if isinstance(value, str):
        if not is_extension_name(value):
            error = refusal(path, "the name of an extension, or an object with that name", value)
            error.hint = "names have small letters" if is_extension_name(value.lower()) else None
            raise error
        return Extension(value, path=path)
    if not isinstance(value, dict):
        raise refusal(path, "an object with a name, or a name alone", value)
    name, configuration = value.get("name"), value.get("configuration", {})
    if (
        isinstance(name, str)
        and isinstance(configuration, dict)
        and value.get("must_understand", True) is True
        and value.keys() <= _MEMBERS
    ):
        return Extension(name, configuration, path=path)
    members = Members(value, path)
    name = members.string("name")
    configuration = members.object("configuration", {})
    understood = members.boolean("must_understand", True)
    members.finish()
    if not (understood or may_ignore):
        raise refusal(member(path, "must_understand"), "true or absent here", False)
    return Extension(name, configuration, understood, path=path)


def parse_extensions(value: Json, path: str) -> tuple[Extension, ...]:
    """An array of extensions."""
    if not isinstance(value, list):
        raise refusal(path, "an array of extensions", value)
    return tuple([parse_extension(child, item(path, at)) for at, child in enumerate(value)])


class ExtensionFamily(Protocol[T_co]):
    """An entry of a registry: a reader for one name, or for many that differ by a parameter."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names for messages ("r*" for those of a pattern)."""

    def matches(self, name: str) -> bool:
        """Whether this family reads extensions of the name."""

    def parse(self, extension: Extension, path: str) -> T_co:
        """The value of an extension whose name matches; MetadataError for a wrong configuration."""


class NamedExtension(Value, Generic[T]):
    """A family of one name. `reader` gets the extension and its path; the family can be pickled if that function can."""

    __slots__ = ("name", "reader")
    name: str
    reader: Callable[[Extension, str], T]

    def __init__(self, name: str, reader: Callable[[Extension, str], T]) -> None:
        self.name, self.reader = name, reader

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    def matches(self, name: str) -> bool:
        return name == self.name

    def parse(self, extension: Extension, path: str) -> T:
        return self.reader(extension, path)


def pick(families: Sequence[ExtensionFamily[T]], extension: Extension, path: str, kind: str) -> ExtensionFamily[T]:
    """The first family that reads the extension; UnknownExtensionError if there is none, with the name that is similar, or with all registered names.

    kind  the word for such an extension in the message, such as "data type" """
    for family in families:
        if family.matches(extension.name):
            return family
    raise not_registered(kind, extension.name, names_of(families), path)


def not_registered(kind: str, name: str, names: Sequence[str], path: str, reason: str = "") -> UnknownExtensionError:
    """The error for a name that none of the registered ones is, with the one that is similar, or with all of them; with URIs only for a URI, if there are any.

    kind    the word for such an extension, such as "data type"
    reason  why it is needed, if that is not clear"""
    alike = suggestion(name, names)
    listed = [other for other in dict.fromkeys(names) if (":" in other) == (":" in name)] or names
    registered = "" if alike else f" (registered: {', '.join(listed) or 'none'})"
    method = f"Registry.with_{kind.replace(' ', '_')}"
    return UnknownExtensionError(
        f"the {kind} {found(name)} is not registered{registered}{reason}",
        path=path,
        hint=alike or f"register it with {method}, or open with a version that has it",
    )


def look_up(pairs: Sequence[tuple[str, T]], name: str) -> T | None:
    """The first value of a name in pairs."""
    return next((value for other, value in pairs if other == name), None)


def suggestion(name: str, names: Sequence[str]) -> str | None:
    """A hint with the known name that is similar to a name: mistyped, without the part before its dot, or shortened. None if no name is similar."""
    from difflib import get_close_matches

    short = {full_name.rpartition(".")[2].lower(): full_name for full_name in reversed(names)} | {
        full_name.lower(): full_name for full_name in reversed(names)
    }
    lowered = name.lower()
    alike = get_close_matches(lowered, short, 1, 0.7)
    if not alike and len(name) >= _BEGINNING:
        alike = [full_name for full_name in short if full_name.startswith(lowered)]
    return f"did you mean {short[alike[0]]!r}?" if alike else None


def names_of(families: Sequence[ExtensionFamily[T]]) -> tuple[str, ...]:
    """All names that the families read, each once, for messages."""
    return tuple(dict.fromkeys(name for family in families for name in family.names))


def no_configuration(extension: Extension, path: str) -> None:
    """Refuses a configuration where none is defined."""
    for name, value in extension.configuration.items():
        inner_path = member(member(path, "configuration"), name)
        raise MetadataError(f"{extension.name} takes no configuration, found {name}: {found(value)}", path=inner_path)
