"""JSON text to values and back, strictly (RFC 8259, UTF-8). The files of the dialects define the members of documents.

Numbers keep the information that the fill value rules need: `1` is an int, `1.0` and `1e0` are floats that keep their text."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from operator import attrgetter
from typing import Final, Self, TypeAlias, TypeVar

import numpy as np

from frazil import _kernel
from frazil.base.packages import json
from frazil.errors import MetadataError, shown

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

T = TypeVar("T")
_ATOMS: Final = frozenset({str, int, bool, type(None)})
_ATTRIBUTES: Final = "attributes"  # members with attributes: in documents of v3, and in consolidated metadata of v2
_ATTRIBUTES_KEY: Final = ".zattrs"
DEPTH_LIMIT: Final = 200  # levels of nesting; the functions below recurse once for each level


class ExactFloat(float):
    """A number with a fraction or exponent, as a float64, and the `text` that it was read from."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Self:
        self = super().__new__(cls, text)
        self.text = text
        return self

    def __reduce__(self) -> tuple[type[ExactFloat], tuple[str]]:
        return ExactFloat, (self.text,)


class NonFinite(float):
    """NaN, Infinity or -Infinity, which programs write into attributes without quotes. Equal to itself, so that documents can be compared. Infinities are equal
    to those of Python, for users who compare an attribute; NaN is not."""

    __slots__ = ()

    @property
    def word(self) -> str:
        return "NaN" if math.isnan(self) else "Infinity" if self > 0 else "-Infinity"

    def __eq__(self, other: object) -> bool:
        return self.word == other.word if isinstance(other, NonFinite) else float.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __hash__(self) -> int:
        return hash(self.word) if math.isnan(self) else float.__hash__(self)

    def __reduce__(self) -> tuple[type[NonFinite], tuple[str]]:
        return NonFinite, (self.word,)


class NegativeZero(int):
    """The number `-0`: 0 for an integer type, -0.0 for a floating-point type."""

    __slots__ = ()


class _Refused(dict[str, object]):
    """Replaces a value that no document may contain, until its path is known."""

    def __init__(self, reason: str, member: str | None = None, word: str | None = None) -> None:
        super().__init__()
        self.reason, self.member, self.word, self.accepted = reason, member, word, False


def member(path: str | None, name: str) -> str:
    """The path of a member of the object at `path` (None: the document itself)."""
    if not (name.isidentifier() or name.replace("-", "_").isidentifier()):
        return f"{path or ''}[{json.dumps(name)}]"
    return f"{path}.{name}" if path else name


def item(path: str | None, index: int) -> str:
    """The path of an item of the array at `path`."""
    return f"{path or ''}[{index}]"


def found(value: object) -> str:
    """A value as error messages show it: its JSON text if it has one, shortened."""
    if isinstance(value, ExactFloat):
        text = value.text
    elif isinstance(value, NegativeZero):
        text = "-0"
    else:
        try:
            text = json.dumps(value, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError):
            return shown(value) if isinstance(value, int) else f"{shown(value)} of type {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text)} characters)"


def _hint_for(text: str) -> str:
    """A hint for a text that is not JSON."""
    if text.lstrip().startswith("<"):
        return "it is a page of HTML or XML: check the location and the server"
    return "restore it from a copy, or write it again" if text else "it is empty; was its writer interrupted?"


def parse_json(data: bytes | bytearray | memoryview | str, *, free: AbstractSet[str] = frozenset()) -> Json:
    """The JSON value of UTF-8 text.

    free  members of the outermost object in which NaN, Infinity and -Infinity without quotes, which programs do write, are accepted: in attributes as
          NonFinite, elsewhere as those strings

    Raises MetadataError for text that is not JSON, a member that occurs twice, a number beyond float64, an integer of more digits than Python converts, and
    nesting deeper than DEPTH_LIMIT."""
    try:
        text = data if isinstance(data, str) else bytes(data).decode("utf-8")
    except UnicodeDecodeError as error:
        raise MetadataError(
            f"the document must be UTF-8 text, found byte 0x{data[error.start]:02x} at {error.start}"
        ) from None
    refused: list[_Refused] = []

    def refuse(reason: str, name: str | None = None, word: str | None = None) -> _Refused:
        refused.append(_Refused(reason, name, word))
        return refused[-1]

    def read_object(pairs: list[tuple[str, object]]) -> object:
        members = dict(pairs)
        if len(members) < len(pairs):
            seen: set[str] = set()
            twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            return refuse(f"a member may occur once in an object, found {found(twice)} twice", twice)
        return members

    def read_float(digits: str) -> object:
        number = ExactFloat(digits)
        return number if math.isfinite(number) else refuse(f"a number must fit a float64, found {found(number)}")

    def read_constant(token: str) -> object:
        return refuse(
            f"{token} is not JSON: it must be a string where the format allows it, found the bare word", word=token
        )

    read_int: Callable[[str], object] | None = _read_int if "-0" in text else None
    try:
        value: Json = json.loads(
            text,
            object_pairs_hook=read_object,
            parse_float=read_float,
            parse_int=read_int,
            parse_constant=read_constant,
        )
    except json.JSONDecodeError as error:
        raise MetadataError(
            f"the document must be JSON, but {error.msg} at line {error.lineno}, column {error.colno}",
            hint=_hint_for(text),
        ) from None
    except ValueError:
        raise MetadataError("the document holds an integer of more digits than Python converts") from None
    except RecursionError:
        raise MetadataError(f"the document must not nest deeper than {DEPTH_LIMIT} levels") from None
    if text.count("[") + text.count("{") > DEPTH_LIMIT:
        _check_depth(value)
    if refused and free and isinstance(value, dict):
        for name in free & value.keys():
            value[name] = _read_words(value[name], name)
        refused = [other for other in refused if not other.accepted]
    if refused:
        inner_path = _path_of(value, refused[0], None)
        raise MetadataError(
            refused[0].reason, path=inner_path if refused[0].member is None else member(inner_path, refused[0].member)
        )
    return value


def _read_words(value: object, name: str, within: bool = False) -> Json:
    """The value of a member with its unquoted NaN and infinities as numbers, if it is in attributes, or else as strings; they are no longer refused."""
    within = within or name == _ATTRIBUTES or name.rpartition("/")[2] == _ATTRIBUTES_KEY
    if isinstance(value, _Refused) and value.word is not None:
        value.accepted = True
        return NonFinite(value.word) if within else value.word
    if isinstance(value, dict) and not isinstance(value, _Refused):
        return {key: _read_words(child, key, within) for key, child in value.items()}
    if isinstance(value, list):
        return [_read_words(child, "", within) for child in value]
    return value  # type: ignore[return-value]


def _read_int(digits: str) -> int:
    return NegativeZero() if digits == "-0" else int(digits)


def _check_depth(value: Json) -> None:
    level: list[Json] = [value]
    for _ in range(DEPTH_LIMIT):
        level = [
            child
            for outer in level
            for child in (outer.values() if isinstance(outer, dict) else outer if isinstance(outer, list) else ())
            if type(child) in (dict, list)
        ]
        if not level:
            return
    raise MetadataError(f"the document must not nest deeper than {DEPTH_LIMIT} levels")


def _path_of(value: object, refused: _Refused, path: str | None) -> str | None:
    """The path of `refused` itself beneath `value`; None at the top, and where an object with a duplicate member has replaced it."""
    if value is refused:
        return path
    children: list[tuple[str, object]] = []
    if isinstance(value, dict):
        children = [(member(path, name), child) for name, child in value.items()]
    elif isinstance(value, list):
        children = [(item(path, index), child) for index, child in enumerate(value)]
    for inner_path, child in children:
        if (deeper := _path_of(child, refused, inner_path)) is not None:
            return deeper
    return None


def as_json(value: object, path: str | None, depth: int = DEPTH_LIMIT) -> Json:
    """A deep copy of a value as plain JSON: tuples become lists, NumPy scalars and arrays Python numbers.

    Values that JSON cannot express (NaN and infinities except NonFinite, sets, members whose names are not strings) are refused with a MetadataError."""
    try:
        return _copied(value, depth)
    except TypeError:
        return _as_json(value, path, depth)


def same_json(one: object, other: object) -> bool:
    """Whether two values of parse_json are the same in every detail. Python's 1, 1.0 and True are equal."""
    kind = type(one)
    if kind is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_json(child, other[name]) for name, child in one.items())  # type: ignore[attr-defined, index]
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same_json, one, other))  # type: ignore[arg-type, call-overload]
    return one.text == other.text if isinstance(one, ExactFloat) else one == other  # type: ignore[attr-defined]


def as_plain(value: dict[str, Json]) -> dict[str, Json]:
    """The result of as_json for an object that parse_json has made and nothing else uses. It is changed in place, which is faster than a copy."""
    stack: list[list[Json] | dict[str, Json]] = [value]
    while stack:
        outer = stack.pop()
        children = enumerate(outer) if isinstance(outer, list) else outer.items()
        for at, child in children:
            kind = type(child)
            if kind is list or kind is dict:
                stack.append(child)  # type: ignore[arg-type] # one of both
            elif kind is ExactFloat or kind is NegativeZero:
                outer[at] = float(child) if kind is ExactFloat else 0  # type: ignore[arg-type, index] # the key or index of a number
    return value


def copied(value: T) -> T:
    """A value of a document with new lists and dicts on every level; other values are immutable."""
    kind = type(value)
    if kind is list:
        return [copied(child) for child in value]  # type: ignore[attr-defined, return-value]
    if kind is dict:
        return {name: copied(child) for name, child in value.items()}  # type: ignore[attr-defined, return-value]
    return value


def _copied(value: object, depth: int) -> Json:
    """A deep copy of plain JSON, which most values are, without tracking its path. Raises TypeError for other values."""
    kind = type(value)
    if kind in _ATOMS:
        return value  # type: ignore[return-value]
    if kind is list and depth:
        return [child if type(child) in _ATOMS else _copied(child, depth - 1) for child in value]  # type: ignore[attr-defined]
    if kind is dict and depth:
        for name in value:  # type: ignore[attr-defined]
            if type(name) is not str:
                raise TypeError
        members = value.items()  # type: ignore[attr-defined]
        return {name: child if type(child) in _ATOMS else _copied(child, depth - 1) for name, child in members}
    if (kind is float or kind is ExactFloat) and math.isfinite(value):  # type: ignore[arg-type]
        return float(value)  # type: ignore[arg-type]
    raise TypeError


def _as_json(value: object, path: str | None, depth: int) -> Json:
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, NonFinite):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise MetadataError(
                f"a number in a document must be finite, found {float(value)}",
                path=path,
                hint='write a string such as "NaN"',
            )
        return float(value)
    if not isinstance(value, (Mapping, list, tuple)):
        raise MetadataError(f"a value in a document must be JSON, found {found(value)}", path=path)
    if depth == 0:
        raise MetadataError(f"a document must not nest deeper than {DEPTH_LIMIT} levels", path=path)
    if isinstance(value, (list, tuple)):
        return [_as_json(child, item(path, index), depth - 1) for index, child in enumerate(value)]
    for name in value:
        if not isinstance(name, str):
            raise MetadataError(f"the name of a member must be a string, found {found(name)}", path=path)
    return {str(name): _as_json(child, member(path, name), depth - 1) for name, child in value.items()}


def with_lists(value: object) -> Json:
    """A value of a record, with lists in place of tuples."""
    return [with_lists(item) for item in value] if isinstance(value, tuple) else value  # type: ignore[return-value]


def known_members(fields: Mapping[str, object]) -> dict[str, Json]:
    """The fields of a record that are not None, with lists in place of tuples."""
    return {name: with_lists(value) for name, value in fields.items() if value is not None}


def dump_json(value: Json, indent: int | None = 2) -> bytes:
    """UTF-8 JSON text: members in their order, two spaces for each level, a line break at the end. NaN and infinities are refused,
    except NonFinite, which are written without quotes.

    indent  None: all in one line, for text that only programs read"""
    separators = None if indent is None else (",", ": ")
    try:
        line = f"{json.dumps(value, ensure_ascii=False, allow_nan=False, separators=separators)}\n".encode()
    except (TypeError, ValueError):  # also words, and half of a surrogate pair
        return _dump_by_python(value, indent)
    return line if indent is None else _kernel.indent_json(line, indent)  # json itself writes indented text in Python


def _dump_by_python(value: Json, indent: int | None) -> bytes:
    """As dump_json, for text that is refused, or not UTF-8 or strict JSON."""
    words = _has_words(value)
    # `json` finds NaN by comparing a number with itself
    value = spelt_out(value, float) if words else value
    try:
        text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=words)
        try:
            return f"{text}\n".encode()
        except UnicodeEncodeError:  # half of a surrogate pair can be written only as an escape
            return json.dumps(value, indent=indent, allow_nan=words).encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise MetadataError(f"the document cannot be written as JSON: {error}") from None


def spelt_out(value: Json, spell: Callable[[NonFinite], Json] = attrgetter("word")) -> Json:
    """With strings in place of NonFinite, as in strict JSON; or with the results of `spell`."""
    if isinstance(value, dict):
        return {name: spelt_out(child, spell) for name, child in value.items()}
    if isinstance(value, list):
        return [spelt_out(child, spell) for child in value]
    return spell(value) if isinstance(value, NonFinite) else value


def _has_words(value: Json) -> bool:
    """Whether there are numbers that are not finite, and all of them are NonFinite."""
    found, stack = False, [value]
    while stack:
        child = stack.pop()
        if isinstance(child, dict):
            stack.extend(child.values())
        elif isinstance(child, list):
            stack.extend(child)
        elif isinstance(child, float) and not math.isfinite(child):
            if not isinstance(child, NonFinite):
                return False
            found = True
    return found
