"""Checks of the members of documents and configurations. Every error names the member, the value, and the allowed values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import index
from typing import Final, TypeVar

from frazil.errors import MetadataError
from frazil.metadata.json_text import DEPTH_LIMIT, Json, as_json, found, item, member

INT64_MAX: Final = 2**63 - 1
T = TypeVar("T")


def refusal(path: str | None, allowed: str, value: object, hint: str | None = None) -> MetadataError:
    """The error for a value at `path`. allowed: the allowed values, in words."""
    name = "the document" if path is None else path.rpartition(".")[2]
    return MetadataError(f"{name} must be {allowed}, found {found(value)}", path=path, hint=hint)


def between(low: int | None, high: int | None) -> str:
    """The words for an integer in a range, for messages."""
    if high is None or high == INT64_MAX:
        return "an integer" if low is None else f"an integer of at least {low}"
    if low is None:
        return f"an integer up to {high}"
    return f"an integer from {low} to {high}"


def check_integer(value: Json, path: str, low: int | None = None, high: int | None = INT64_MAX) -> int:
    """An integer from low to high, both included: a JSON number without fraction or exponent, not a boolean."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise refusal(path, between(low, high), value)
    if (low is not None and value < low) or (high is not None and value > high):
        allowed = between(low, high)
        raise refusal(path, allowed if high != INT64_MAX or value < INT64_MAX else f"{allowed}, below 2^63", value)
    return int(value)


def check_integers(
    value: Json, path: str, low: int | None = None, high: int | None = INT64_MAX, length: int | None = None
) -> tuple[int, ...]:
    """An array of integers from low to high; of `length` items, where that is given."""
    if not isinstance(value, list):
        raise refusal(path, "an array of integers", value)
    if length is not None and len(value) != length:
        raise refusal(path, f"an array of {length} integers", value)
    numbers: list[int] = []
    for child in value:
        if type(child) is int and (low is None or low <= child) and (high is None or child <= high):
            numbers.append(child)
        else:
            numbers.append(check_integer(child, item(path, len(numbers)), low, high))
    return tuple(numbers)


def check_string(value: Json, path: str) -> str:
    if not isinstance(value, str):
        raise refusal(path, "a string", value)
    return value


def check_object(value: Json, path: str | None) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise refusal(path, "an object", value)
    return value


def json_object(value: object, path: str | None) -> dict[str, Json]:
    """A deep copy of a mapping as a plain JSON object. path: None for a whole document. Raises MetadataError for values that a document cannot have."""
    return check_object(as_json(value, path, DEPTH_LIMIT - (path is not None)), path)


def lengths_from_user(value: object, path: str, low: int) -> tuple[int, ...]:
    """A shape from a user (one integer, or a sequence of Python or NumPy integers) as ints from low to 2^63 - 1."""
    if type(value) is tuple:  # most shapes are tuples of ints
        for number in value:
            if type(number) is not int or not low <= number <= INT64_MAX:
                break
        else:
            return value
    single = _as_int(value)
    if single is not None:
        values: list[object] = [single]
    elif isinstance(value, (str, bytes, Mapping)) or not isinstance(value, (Sequence, Collection)):
        raise refusal(path, "an integer or a sequence of integers", value)
    else:
        values = list(value)
    lengths = []
    for at, entry in enumerate(values):
        number = _as_int(entry)
        if number is None or not low <= number <= INT64_MAX:
            raise refusal(item(path, at), f"{between(low, INT64_MAX)}, below 2^63", entry)
        lengths.append(number)
    return tuple(lengths)


def _as_int(value: object) -> int | None:
    if type(value) is int:
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        return None
    try:
        return index(value)
    except TypeError:  # NumPy arrays of several elements also have __index__
        return None


class Members:
    """The members of one object, read by name. `finish` refuses members that were not read.

    path  of the object in its document, such as "codecs[1].configuration"."""

    __slots__ = ("_read", "path", "values")

    def __init__(self, values: Mapping[str, Json], path: str | None) -> None:
        self.values, self.path = values, path
        self._read: list[str] = []

    def at(self, name: str) -> str:
        """The path of a member."""
        return member(self.path, name)

    def has(self, name: str) -> bool:
        """Whether the member exists; it counts as read."""
        self._read.append(name)
        return name in self.values

    def get(self, name: str) -> Json:
        """A required member, unchecked."""
        if not self.has(name):
            raise MetadataError(
                f"{name} is required, found {'only ' + ', '.join(map(repr, self.values)) if self.values else 'no members'}",
                path=self.at(name),
            )
        return self.values[name]

    def integer(
        self, name: str, low: int | None = None, high: int | None = INT64_MAX, default: int | None = None
    ) -> int:
        """An integer from low to high; `default` if it is absent, required if there is no default."""
        if default is not None and not self.has(name):
            return default
        return check_integer(self.get(name), self.at(name), low, high)

    def integers(
        self, name: str, low: int | None = None, high: int | None = INT64_MAX, length: int | None = None
    ) -> tuple[int, ...]:
        """A required array of integers."""
        return check_integers(self.get(name), self.at(name), low, high, length)

    def _of(self, name: str, kind: type[T], allowed: str, default: T | None) -> T:
        """A member of one kind; required if there is no default."""
        if default is not None and not self.has(name):
            return default
        value = self.get(name)
        if not isinstance(value, kind):
            raise refusal(self.at(name), allowed, value)
        return value

    def boolean(self, name: str, default: bool | None = None) -> bool:
        return self._of(name, bool, "true or false", default)

    def string(self, name: str, default: str | None = None) -> str:
        return self._of(name, str, "a string", default)

    def choice(self, name: str, allowed: Sequence[str], default: str | None = None) -> str:
        """One of the allowed strings."""
        if default is not None and not self.has(name):
            return default
        value = self.get(name)
        if not isinstance(value, str) or value not in allowed:
            raise refusal(
                self.at(name), f"{'one of ' if len(allowed) > 1 else ''}{', '.join(map(found, allowed))}", value
            )
        return value

    def array(self, name: str, default: list[Json] | None = None) -> list[Json]:
        return self._of(name, list, "an array", default)

    def object(self, name: str, default: dict[str, Json] | None = None) -> dict[str, Json]:
        return self._of(name, dict, "an object", default)

    def rest(self) -> dict[str, Json]:
        """The members that were not read."""
        if not self.values.keys() - self._read:
            return {}
        return {name: value for name, value in self.values.items() if name not in self._read}

    def finish(self) -> None:
        """Refuses the members that were not read."""
        for name, value in self.rest().items():
            allowed = ", ".join(dict.fromkeys(self._read)) or "no members"
            raise MetadataError(
                f"{name} is not known here (allowed: {allowed}), found {found(value)}", path=self.at(name)
            )
