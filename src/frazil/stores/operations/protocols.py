"""The ten operations of the Zarr v3 draft ("Abstract store interface") on a user's object: their types, and which of them it has.

Missing operations are made from others in fallbacks.py; the store over all of them is in adapted_store.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from operator import index
from typing import TYPE_CHECKING, Final, Protocol

from frazil.errors import FrazilError, InvalidInputError, StoreError

if TYPE_CHECKING:
    from frazil._kernel import Buffer


MISSING_ERRORS: Final = (KeyError, FileNotFoundError, NotADirectoryError, IsADirectoryError)  # errors for a missing key
_WRITES: Final = frozenset({"set", "set_values", "set_partial_values", "set_if"})  # to which no key can be missing
_ADDRESS: Final = re.compile(r"(?<=://)(?:[^@\s'\"<>]*@)?([^\s?'\"<>]*)(?:\?[^\s'\"<>]*)?")
_ASYNCHRONOUS: Final = 0x80 | 0x200  # flags of code: coroutines and asynchronous generators


class Readable(Protocol):
    """The value of a key; None, or an error such as KeyError, for a missing key."""

    def get(self, key: str, /) -> Buffer | None: ...


class PartlyReadable(Protocol):
    """The bytes of each (key, (start, length)), in that order, None for missing keys; a length of None is up to the end. The part beyond the end is cut off."""

    def get_partial_values(
        self, key_ranges: Sequence[tuple[str, tuple[int, int | None]]], /
    ) -> Iterable[Buffer | None]: ...


class Writable(Protocol):
    """Stores a value whole."""

    def set(self, key: str, value: bytes, /) -> object: ...


class PartlyWritable(Protocol):
    """Stores each (key, start, value) into the key's value. A missing value is created, also by an empty one. Ranges do not overlap and leave no gaps."""

    def set_partial_values(self, key_start_values: Sequence[tuple[str, int, bytes]], /) -> object: ...


class Operations:
    """The operations of an object: those of the document, and beyond them

    size           bytes of a key's value, None for a missing key
    sizes          size of several keys at once, beside `size`
    set_values     set of several keys at once, in a mapping to their values, beside `set`
    version        bytes (not empty) that change whenever the value does, and never come back; None for a missing key
    set_if         stores a value if the key has this version (b"": if it is missing), in one step: the new version, None if it has another one
    erase_if       the same for erase: whether it was done
    suffix_ranges  get_partial_values takes a start < 0, which counts from the end

    Failures of the object become StoreErrors, but MISSING_ERRORS are passed on. list_dir returns prefixes without the "/" at their end."""

    get: Callable[[str], Buffer | None] | None = None
    get_partial_values: Callable[[Sequence[tuple[str, tuple[int, int | None]]]], Iterable[Buffer | None]] | None = None
    set: Callable[[str, bytes], object] | None = None
    set_partial_values: Callable[[Sequence[tuple[str, int, bytes]]], object] | None = None
    erase: Callable[[str], object] | None = None
    erase_values: Callable[[Collection[str]], object] | None = None
    erase_prefix: Callable[[str], object] | None = None
    list: Callable[[], Iterable[str]] | None = None
    list_prefix: Callable[[str], Iterable[str]] | None = None
    list_dir: Callable[[str], tuple[Iterable[str], Iterable[str]]] | None = None
    size: Callable[[str], int | None] | None = None
    sizes: Callable[[Sequence[str]], Sequence[int | None]] | None = None
    set_values: Callable[[Mapping[str, bytes]], object] | None = None
    version: Callable[[str], bytes | None] | None = None
    set_if: Callable[[str, bytes, bytes], bytes | None] | None = None
    erase_if: Callable[[str, bytes], bool] | None = None
    suffix_ranges: bool = False

    def __init__(self, found: Mapping[str, Callable[..., object]], *, suffix_ranges: bool) -> None:
        vars(self).update(found, suffix_ranges=suffix_ranges)

    @classmethod
    def of(cls, inner: object, without: type | None = None) -> Operations:
        """The operations of an object; those inherited from the class `without` do not count. A mapping has the operations of mappings.
        Raises InvalidInputError for an object without any, and for asynchronous ones."""
        if isinstance(inner, type):
            raise InvalidInputError(
                f"{inner.__name__} is a class, not a store", hint=f"make one: {inner.__name__}(...)"
            )
        found = _mapping_operations(inner) if isinstance(inner, Mapping) else {}
        for name in _NAMES:
            method = getattr(inner, name, None)
            inherited = without is not None and getattr(type(inner), name, None) is getattr(without, name, inner)
            if callable(method) and not inherited and name not in found:
                if getattr(getattr(method, "__code__", None), "co_flags", 0) & _ASYNCHRONOUS:
                    raise InvalidInputError(
                        f"{name} of {type(inner).__name__} is asynchronous",
                        hint="operations of a store must not be asynchronous",
                    )
                found[name] = method
        if not found.keys() & set(OPERATIONS):
            raise InvalidInputError(
                f"{type(inner).__name__} has no operation of a store", hint=f"implement some of {', '.join(OPERATIONS)}"
            )
        wrapped = {name: _with_store_errors(name, method) for name, method in found.items()}
        return cls(wrapped, suffix_ranges=bool(getattr(inner, "suffix_ranges", False)))


_NAMES: Final = tuple(Operations.__annotations__)[:-1]
OPERATIONS: Final = _NAMES[:10]  # those of the document


def _mapping_operations(inner: Mapping[str, Buffer]) -> dict[str, Callable[..., object]]:
    found: dict[str, Callable[..., object]] = {"get": inner.__getitem__, "list": lambda: tuple(inner)}
    if isinstance(inner, MutableMapping):
        found |= {"set": inner.__setitem__, "erase": inner.__delitem__}
    return found


def _with_store_errors(name: str, method: Callable[..., object]) -> Callable[..., object]:
    """The method, with its errors as errors of ours that name the method, and its listings as lists."""
    handed_on = (FrazilError, MemoryError) if name in _WRITES else (FrazilError, MemoryError, *MISSING_ERRORS)

    def call(*args: object) -> object:
        failed: Exception
        try:
            answer = method(*args)
            if name in {"list", "list_prefix", "get_partial_values"}:
                return list(answer)  # type: ignore[call-overload] # a result of another type raises an error
            if name == "list_dir":
                pair: tuple[Iterable[str], Iterable[str]] = answer  # type: ignore[assignment] # as above
                return list(pair[0]), [prefix.removesuffix("/") for prefix in pair[1]]
        except handed_on:
            raise
        except Exception as error:
            failed = error
        else:
            return _checked(name, answer, args)
        try:
            raise store_failure(name, failed, _key_of(args)) from shown_cause(failed)
        finally:
            del failed  # its traceback has this frame, which would keep it, and the values in it, until the garbage collector runs

    return call


def _key_of(args: tuple[object, ...]) -> str | None:
    """The key that an operation was called with; None where there are several, or none."""
    first = args[0] if args else None
    if isinstance(first, str):
        return first
    if not isinstance(first, Collection) or len(first) != 1:
        return None
    (item,) = first
    key = item[0] if isinstance(item, tuple) else item
    return key if isinstance(key, str) else None


def store_failure(name: str, error: Exception, key: str | None) -> StoreError:
    """The error for an exception of an operation, in one line. Of addresses in it users, passwords and queries are left out: other libraries show signatures
    there."""
    text = " ".join(without_secrets(f"{error}").split())
    recursion = "it calls itself, perhaps through an operation that is derived from it"
    return StoreError(
        f"{name} of the store failed with {type(error).__name__}: {text}",
        errno=error.errno if isinstance(error, OSError) else None,
        key=key,
        hint=recursion if type(error) is RecursionError else None,
    )


def shown_cause(error: Exception) -> Exception | None:
    """The error, to be the cause of ours; None if a traceback of it, or of an error before it, would show what may be secret. To be raised outside of `except`,
    or it is the context nevertheless."""
    stack: list[BaseException | None] = [error]
    visited: list[BaseException] = []
    while stack:
        cause = stack.pop()
        if cause is None or any(cause is other for other in visited):
            continue
        visited.append(cause)
        text = "\n".join([f"{cause}", repr(cause), *getattr(cause, "__notes__", ())])
        if without_secrets(text) != text:
            return None
        stack += [cause.__cause__, cause.__context__, *getattr(cause, "exceptions", ())]
    return error


def without_secrets(text: str) -> str:
    """A text without what may be secret in the addresses in it."""
    return _ADDRESS.sub(r"\1", text)


def _checked(name: str, answer: object, args: tuple[object, ...]) -> object:
    """The result of an operation beyond those of the document; listings and values are checked where they are used. Raises StoreError."""
    if name == "size" and answer is not None:
        if isinstance(answer, bool) or not hasattr(answer, "__index__") or index(answer) < 0:
            raise StoreError(f"size gave {answer!r}", key=str(args[0]), hint="it must give a number of bytes, or None")
        return index(answer)
    if name == "set_if" and answer is not None and (not isinstance(answer, bytes) or not answer):
        raise StoreError(
            f"set_if gave {answer!r}", key=str(args[0]), hint="it must give the new version (bytes, not empty), or None"
        )
    return answer
