"""Operations of the Zarr v3 draft made from each other, in both directions: whole values from partial ones, partial ones from whole ones, any listing from any
other.

Everything uses the operations that an object has (protocols.py); versions, locks and the port are in adapted_store.py."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from frazil.base.record import Record
from frazil.base.retry import READS, attempts
from frazil.errors import InvalidInputError, StoreError
from frazil.stores.keys.listing import first_level
from frazil.stores.keys.names import check_key
from frazil.stores.operations.protocols import MISSING_ERRORS, Operations
from frazil.stores.values import clip_span, flat_buffer

if TYPE_CHECKING:
    from frazil._kernel import Buffer

R = TypeVar("R")

Span = tuple[int, int]  # start, < 0: from the end; length, < 0: up to the end
Write = tuple[int, bytes]

_WHOLE: Final[Span] = (0, -1)
_DEEPEST: Final = 4096  # the most levels of a listing
_LISTINGS: Final = "it needs one of `list`, `list_prefix`, `list_dir`"


class ReadValue(Record):
    """The values read of an existing key: its size (-1: not requested), the whole value or the requested spans, and its version."""

    size: int
    whole: bytes | None
    parts: Mapping[Span, bytes]
    version: bytes | None = None

    def has(self, span: Span) -> bool:
        return self.whole is not None or span in self.parts

    def value(self, span: Span) -> bytes:
        """The bytes of a span, clipped to the value."""
        if self.whole is None:
            return self.parts[span]
        start, length = clip_span(*span, len(self.whole))
        return self.whole if length == len(self.whole) else self.whole[start : start + length]


# --- reading -------------------------------------------------------------------------------------------------------------------------


def look(can: Operations, requested: Mapping[str, Iterable[Span]], *, sized: bool) -> dict[str, ReadValue | None]:
    """Spans of keys, in as few calls as the operations allow; None for a missing key.

    sized  whether sizes are requested too. They are not known if all spans of a key are plain ranges and the object does not return sizes.
    A span from the end is requested as such if the object supports it, else found by the size, else cut from the whole value."""
    each = {key: dict.fromkeys(spans) for key, spans in requested.items()}
    for _ in attempts(READS):
        found = _look_now(can, each, sized)
        if found is not None:
            return found
    raise StoreError(
        "values change faster than they can be read, or ranges differ from the requested ones",
        key=next(iter(requested), None),
        hint="try again when no process writes to it; check that the server knows ranges",
    )


def _look_now(
    can: Operations, requested: Mapping[str, Collection[Span]], sized: bool
) -> dict[str, ReadValue | None] | None:
    """None if a value changed between two calls."""
    sizes = _sizes_if_needed(can, requested, sized)
    by_key: dict[str, dict[Span, bytes]] = {}
    whole: list[str] = []
    ranges: list[tuple[str, Span, tuple[int, int | None]]] = []  # key, wanted span, requested span
    counts: list[int] = []  # bytes to be received, if known
    for key, spans in requested.items():
        if _is_whole(can, spans, sized):
            whole.append(key)
            continue
        if key in sizes:
            if (size := sizes[key]) is not None:
                cut = {span: clip_span(*span, size) for span in spans}
                by_key[key] = {span: b"" for span, (_, count) in cut.items() if not count}
                for span, (start, count) in cut.items():
                    if count:  # a span at the end is requested up to the end: another number of bytes arrives if the size has changed
                        ranges.append((key, span, (start, count if start + count < size else None)))
                        counts.append(count)
        else:
            ranges += [(key, span, (span[0], span[1] if span[1] >= 0 else None)) for span in spans]
            counts += [-1] * len(spans)
    values = dict(zip(whole, _whole_values(can, whole), strict=True))
    parts = _ranges(can, [(key, byte_range) for key, _, byte_range in ranges])
    found: dict[str, ReadValue | None] = {
        key: None if value is None else ReadValue(len(value), value, {}) for key, value in values.items()
    }
    for (key, span, _), count, part in zip(ranges, counts, parts, strict=True):
        if count >= 0 and (part is None or len(part) != count):
            return None
        if count < 0 and part is not None and not _may_be_right(can, key, span, part):
            return None
        if part is not None:
            by_key.setdefault(key, {})[span] = part
    for key in requested:
        if key not in found:
            size = sizes.get(key, -1)
            found[key] = None if key not in by_key or size is None else ReadValue(size, None, by_key[key])
    return found


def _may_be_right(can: Operations, key: str, span: Span, part: bytes) -> bool:
    """Whether the bytes of a range are plausible. If they reach the end of the value, its size must confirm that: a server that ignores ranges returns
    the whole value."""
    start, length = span
    if start <= 0 or len(part) == length or can.size is None:
        return True
    size = _or_none(can.size, key)
    return size is not None and len(part) == clip_span(start, length, size)[1]


def _sizes_if_needed(can: Operations, requested: Mapping[str, Collection[Span]], sized: bool) -> dict[str, int | None]:
    """The sizes of the keys for which reading parts needs them."""
    if can.size is None:
        return {}
    keys = [
        key
        for key, spans in requested.items()
        if not _is_whole(can, spans, sized) and (sized or not all(_is_native(can, span) for span in spans))
    ]
    if can.sizes is None or len(keys) < 2:
        return {key: _or_none(can.size, key) for key in keys}
    sizes = can.sizes(keys)
    if len(sizes) != len(keys):
        raise StoreError(f"sizes gave {len(sizes)} numbers for {len(keys)} keys", key=keys[0])
    return dict(zip(keys, sizes, strict=True))


def _is_whole(can: Operations, spans: Collection[Span], sized: bool) -> bool:
    """Whether the whole value must be read, or is wanted in any case."""
    if can.get_partial_values is None:
        return bool(spans) or can.size is None
    if _WHOLE in spans:
        return True
    if can.size is not None:
        return False
    if sized:
        return not spans or any(start < 0 or length < 0 for start, length in spans)
    return not all(_is_native(can, span) for span in spans)


def _is_native(can: Operations, span: Span) -> bool:
    """Whether get_partial_values takes it unchanged. For a span from the end that ends before the end, its result for a short value is not defined."""
    start, length = span
    return start >= 0 or (can.suffix_ranges and (length < 0 or length >= -start))


def _whole_values(can: Operations, keys: Sequence[str]) -> list[bytes | None]:
    if can.get is not None and (len(keys) == 1 or can.get_partial_values is None):
        return [_value(can.get, key) for key in keys]
    return _ranges(can, [(key, (0, None)) for key in keys])


def _ranges(can: Operations, ranges: Sequence[tuple[str, tuple[int, int | None]]]) -> list[bytes | None]:
    """get_partial_values, with its results checked. For an empty range one byte is requested: only the object knows whether the key exists."""
    get_ranges = can.get_partial_values
    if not ranges:
        return []
    if get_ranges is None:
        raise StoreError("the store cannot be read", key=ranges[0][0])
    try:
        answers = list(get_ranges([(key, (start, 1 if length == 0 else length)) for key, (start, length) in ranges]))
    except MISSING_ERRORS:  # one of them is missing, which should have been returned as None
        if len(ranges) == 1:
            return [None]
        return [_ranges(can, [request])[0] for request in ranges]
    if len(answers) != len(ranges):
        raise StoreError(f"get_partial_values gave {len(answers)} values for {len(ranges)} ranges", key=ranges[0][0])
    values = [_bytes(key, answer) for (key, _), answer in zip(ranges, answers, strict=True)]
    for i, ((key, (start, length)), value) in enumerate(zip(ranges, values, strict=True)):
        most = length if length is not None else -start if start < 0 else None
        if length == 0 and value is not None:
            values[i] = b""
        elif value is not None and most is not None and len(value) > most:
            raise StoreError(
                f"get_partial_values gave {len(value)} bytes for a range of {most}", key=key, hint="repair the store"
            )
    return values


def has_bytes(can: Operations, key: str, count: int) -> bool:
    """Whether a key has a value of at least this many bytes, by the cheapest operation."""
    if can.size is not None:
        size = _or_none(can.size, key)
        return size is not None and size >= count
    if can.get_partial_values is not None:
        last = _ranges(can, [(key, (max(count - 1, 0), 1))])[0]
        return last is not None and len(last) >= min(count, 1)
    value = _whole_values(can, [key])[0]
    return value is not None and len(value) >= count


def is_readable(can: Operations) -> bool:
    return can.get is not None or can.get_partial_values is not None


# --- writing -------------------------------------------------------------------------------------------------------------------------


def is_erasable(can: Operations) -> bool:
    return can.erase is not None or can.erase_values is not None


def is_writable(can: Operations) -> bool:
    """Whether whole values can be stored. Partial writes alone do not shorten a value: a longer one must be erased before, or its size must be known."""
    return can.set is not None or (can.set_partial_values is not None and (is_erasable(can) or is_readable(can)))


def put(can: Operations, values: Mapping[str, bytes]) -> None:
    """Stores whole values. With partial writes an old value that is longer is erased first; if the object cannot erase, that is a StoreError before anything
    is written."""
    if can.set is not None and can.set_values is not None and len(values) > 1:
        can.set_values(values)
    elif can.set is not None:
        for key, value in values.items():
            can.set(key, value)
    elif values:
        assert can.set_partial_values is not None, "is_writable"
        longer = [key for key, value in values.items() if not is_readable(can) or has_bytes(can, key, len(value) + 1)]
        if longer and not is_erasable(can):
            raise StoreError(
                "the store cannot shorten a value", key=longer[0], hint="it needs `set`, `erase` or `erase_values`"
            )
        erase(can, longer)
        can.set_partial_values([(key, 0, value) for key, value in values.items()])


def patch(can: Operations, writes: Mapping[str, Sequence[Write]]) -> None:
    """Stores partial values (of each key sorted by start). Raises InvalidInputError, before anything is written, for a start beyond the
    end of the value. For an object that returns neither values nor sizes, the end is unknown."""
    for key, parts in writes.items() if is_readable(can) or can.size is not None else ():
        reach = needed = 0
        for start, value in parts:
            needed = start if start > reach else needed
            reach = max(reach, start + len(value))
        if needed and not has_bytes(can, key, needed):
            raise InvalidInputError(
                f"a value of less than {needed} bytes cannot be written from byte {needed}",
                key=key,
                hint="start at its end or before",
            )
    assert can.set_partial_values is not None, "AdaptedStore.write_parts calls it only then"
    if writes:
        can.set_partial_values([(key, start, value) for key, parts in writes.items() for start, value in parts])


def erase(can: Operations, keys: Sequence[str]) -> None:
    """Removes keys; missing ones are no error."""
    if can.erase_values is not None and keys:
        try:
            can.erase_values(keys)
        except MISSING_ERRORS:  # some keys may not be removed yet
            if len(keys) > 1:
                for key in keys:
                    erase(can, [key])
    else:
        for key in keys:
            assert can.erase is not None, "is_erasable"
            with suppress(*MISSING_ERRORS):
                can.erase(key)


# --- listing -------------------------------------------------------------------------------------------------------------------------


def is_listable(can: Operations) -> bool:
    return can.list is not None or can.list_prefix is not None or can.list_dir is not None


def keys_below(can: Operations, prefix: str) -> list[str]:
    """All keys that begin with prefix, sorted. An object without `list` is called with "". Raises StoreError if it cannot list at all: the listings below are
    made from each other, and need one of them; and if its levels have no end."""
    if not is_listable(can):
        raise StoreError("the store is not listable", key=prefix or None, hint=_LISTINGS)
    try:
        if can.list is not None and (prefix == "" or (can.list_prefix is None and can.list_dir is None)):
            return sorted(key for key in _below("list", "", can.list()) if key.startswith(prefix))
        if can.list_prefix is not None:
            return sorted(_below("list_prefix", prefix, can.list_prefix(prefix)))
    except MISSING_ERRORS:
        return []
    found: set[str] = set()
    stack = [prefix]
    while stack:
        rows = rows_below(can, stack.pop())
        found.update(row for row in rows if row[-1] != "/")
        stack += [row for row in rows if row[-1] == "/"]
        if stack and stack[-1].count("/") > _DEEPEST:  # folders may contain themselves
            raise StoreError(
                f"list_dir goes deeper than {_DEEPEST} levels", key=stack[-1][:100], hint="repair the store"
            )
    return sorted(found)


def rows_below(can: Operations, prefix: str) -> list[str]:
    """The keys and the prefixes directly below prefix, sorted. Prefixes get the "/" at their end that the object may have left out."""
    if can.list_dir is None:
        return list(first_level(keys_below(can, prefix), prefix))
    try:
        keys, prefixes = can.list_dir(prefix)
    except MISSING_ERRORS:
        return []
    found, folders = _below("list_dir", prefix, keys), _below("list_dir", prefix, prefixes)
    for name in (*found, *folders):
        if "/" in name[len(prefix) :]:
            raise StoreError(f"list_dir gave {name!r}, which is not directly below the prefix", key=prefix)
    return sorted([*found, *(folder + "/" for folder in folders)])


def _below(name: str, prefix: str, keys: Iterable[str]) -> set[str]:
    """The keys of a result, each once. Names that are no keys, such as "a/", are left out. Raises StoreError for a key that does not begin with prefix."""
    found: set[str] = set()
    for key in keys:
        try:
            check_key(key)
        except InvalidInputError:
            continue
        if not key.startswith(prefix):
            raise StoreError(
                f"{name} gave {key!r}, which does not begin with the prefix", key=prefix, hint="it must give whole keys"
            )
        found.add(key)
    return found


# --- values --------------------------------------------------------------------------------------------------------------------------


def _or_none(call: Callable[[str], R | None], key: str) -> R | None:
    try:
        return call(key)
    except MISSING_ERRORS:
        return None


def _value(get: Callable[[str], Buffer | None], key: str) -> bytes | None:
    try:
        return _bytes(key, get(key))
    except MISSING_ERRORS:
        return None


def _bytes(key: str, value: Buffer | None) -> bytes | None:
    """The object's value as immutable bytes."""
    try:
        return None if value is None else bytes(flat_buffer(value))
    except InvalidInputError:
        raise StoreError(f"the value in the store must be bytes, not {type(value).__name__}", key=key) from None
