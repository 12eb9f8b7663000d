"""The codec chain of the draft, in both dialects: the members of a document <-> a chain of the final Zarr v3 (draft of December 2022, Chunk encoding). Single
codecs are in codec_entries.py, sharding in transformers.py.

The draft converts between arrays and bytes implicitly. The final chain has a codec for each conversion: `bytes` or `frazil.on_bytes`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeGuard

import numpy as np

from frazil.base.record import Record
from frazil.errors import MetadataError
from frazil.metadata.draft.codec_entries import (
    ARRAY_TO_BYTES,
    BYTES_TO_BYTES,
    ON_BYTES,
    Step,
    emit_compressor,
    emit_entry,
    emit_numcodecs,
    on_bytes,
    parse_compressor,
    parse_entry,
    parse_filter,
)
from frazil.metadata.extensions import Extension
from frazil.metadata.json_text import Json, found, item
from frazil.metadata.layout import KnownExtensions
from frazil.metadata.members import check_integers, check_object, refusal

_FILTERS: Final = "attributes.filters"


class DraftChain(Record):
    """codecs: the chain of one chunk, in final terms; attributes: those of the user; filters: the attribute `filters`, if the older dialect keeps its
    filters there, to be written back."""

    codecs: tuple[Extension, ...]
    attributes: dict[str, Json]
    filters: list[Json] | None = None


class EmittedChain(Record):
    """The members of a document for a chain. codecs: for the member of that name (December 2022, may be empty); compressor, filters: of the older
    dialect, None: absent; layout: chunk_memory_layout; big: whether the data type is written as big-endian."""

    codecs: list[Json]
    compressor: Json | None
    filters: list[Json] | None
    layout: Literal["C", "F"]
    big: bool


class _Elements(Record):
    """The elements between two codecs: bytes of an element, and their byte order in NumPy's notation, "|" for none."""

    itemsize: int
    order: str


def parse_chain(
    *,
    codecs: Json | None,
    compressor: Json | None,
    attributes: dict[str, Json],
    reverse_axes: int,
    big: bool,
    swaps: bool,
    itemsize: int,
    old: bool,
    strict: bool = True,
    kinds: KnownExtensions,
) -> DraftChain:
    """The chain of a document of the draft.

    codecs, compressor  the members, None where absent; the older dialect may have either
    attributes          the older dialect keeps filters in them
    reverse_axes        the number of dimensions where chunk_memory_layout is "F", 0 where it is "C"
    big, swaps          whether the data type is written as big-endian, and whether it has a byte order
    itemsize            bytes of an element
    Raises MetadataError, with the member in `path`; UnknownExtensionError for a codec that is not known."""
    if codecs is not None and compressor is not None:
        raise MetadataError(
            "codecs and compressor are both given; an array has one of them, and compressor only in the older dialect",
            path="compressor",
        )
    builder = _Builder(reverse_axes, big, swaps, itemsize, old)
    filters = attributes.get("filters") if old else None
    if not is_filters(filters):  # the user has an attribute of this name
        filters = None
    for at, value in enumerate(filters or ()):
        path = item(_FILTERS, at)
        builder.add(parse_filter(check_object(value, path), path, itemsize=builder.itemsize, kinds=kinds))
    if codecs is not None:
        if not isinstance(codecs, list):
            raise refusal("codecs", "an array of objects, each with the URI of a codec as its type", codecs)
        for at, value in enumerate(codecs):
            builder.add(
                parse_entry(value, item("codecs", at), itemsize=builder.itemsize, old=old, strict=strict, kinds=kinds)
            )
    if compressor is not None:
        builder.add(parse_compressor(compressor, "compressor", itemsize=builder.itemsize, kinds=kinds))
    other_attributes = (
        attributes if filters is None else {name: value for name, value in attributes.items() if name != "filters"}
    )
    return DraftChain(builder.finished(), other_attributes, filters)


def parse_numcodecs_chain(
    entries: Sequence[tuple[str, Json]],
    *,
    reverse_axes: int,
    big: bool,
    swaps: bool,
    itemsize: int,
    kinds: KnownExtensions,
    serializer: Step | None = None,
) -> tuple[Extension, ...]:
    """The chain of codecs with numcodecs' configurations, as in documents of Zarr v2. entries: with their paths in the document; serializer: comes before them.
    Otherwise as parse_chain."""
    builder = _Builder(reverse_axes, big, swaps, itemsize, True)
    if serializer is not None:
        builder.add(serializer)
    for path, value in entries:
        builder.add(parse_filter(check_object(value, path), path, itemsize=builder.itemsize, kinds=kinds))
    return builder.finished()


def is_filters(value: Json) -> TypeGuard[list[Json]]:
    """Whether an attribute `filters` is that of zarr-python 2: a list of numcodecs' configurations."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(entry, dict) and isinstance(entry.get("id"), str) for entry in value)
    )


def attributes_with(attributes: Mapping[str, Json], filters: list[Json] | None) -> dict[str, Json]:
    """The attributes of a document of the older dialect. MetadataError if one of the user's would be read as the filters."""
    own = attributes.get("filters")
    if is_filters(own) or (filters is not None and "filters" in attributes):
        raise MetadataError(
            "the attribute filters cannot be kept: in this dialect the filters of the array have that name, a list of objects with `id`",
            path=_FILTERS,
            hint="give it another name",
        )
    return dict(attributes) if filters is None else {**attributes, "filters": filters}


class _Builder:
    """Builds a chain, with each conversion between array and bytes where it is needed (draft of 2022, Conversion between ... representations)."""

    __slots__ = ("big", "bytes_by", "changed", "elements", "made", "old")

    def __init__(self, reverse_axes: int, big: bool, swaps: bool, itemsize: int, old: bool) -> None:
        """Arguments as in parse_chain."""
        self.elements, self.big, self.old = _Elements(itemsize, (">" if big else "<") if swaps else "|"), big, old
        reversed_axes = list(range(reverse_axes))[::-1]
        self.made = [Extension("transpose", {"order": reversed_axes})] if reverse_axes > 1 else []
        self.bytes_by: str | None = None  # the codec that converted the array to bytes, for messages
        self.changed = False  # whether an array-to-array codec may have changed the type of elements

    @property
    def itemsize(self) -> int:
        """Bytes of an element before the next codec."""
        return self.elements.itemsize

    def add(self, step: Step) -> None:
        if step.kind == BYTES_TO_BYTES:
            if self.bytes_by is None:
                self._convert()
            self.made.append(step.extension)
            self.bytes_by = step.extension.name
            if self.old:
                self.elements = _Elements(1, "|")  # numcodecs passes single bytes on
        elif step.extension.name == "bytes":
            self._endian(step)
        elif self.bytes_by is not None:
            _check_over_bytes(step)
            self.made.append(on_bytes(step.extension))
        else:
            self.made.append(step.extension)
            if step.kind == ARRAY_TO_BYTES:
                self.bytes_by = step.extension.name
            else:
                self.elements = _through(step, self.elements, ">" if self.big else "<")
                self.changed = True

    def finished(self) -> tuple[Extension, ...]:
        if self.bytes_by is None:
            self._convert()
        return tuple(self.made)

    def _convert(self) -> None:
        order = self.elements.order
        if order == "|" and self.changed:
            order = ">" if self.big else "<"  # no effect for elements of one byte
        self.made.append(Extension("bytes", {} if order == "|" else {"endian": "big" if order == ">" else "little"}))

    def _endian(self, step: Step) -> None:
        if self.big:
            raise MetadataError(
                "the data type is spelled big-endian and there is a codec endian too; what both together mean is not defined",
                path=step.path,
                hint='spell the data type without ">", or leave the codec out',
            )
        if self.bytes_by is not None:
            raise MetadataError(
                f"codec endian comes after {self.bytes_by}, which makes bytes; endian is for the elements of an array,"
                " so it must come before all codecs that make bytes, and only once",
                path=step.path,
                hint="put endian first",
            )
        self.made.append(step.extension)
        self.bytes_by = "endian"


def _check_over_bytes(step: Step) -> None:
    if any(elements is not None and elements.order == ">" for elements in _orders(step.extension, step.path)):
        raise MetadataError(
            "a filter of big-endian elements comes after one that makes bytes, which is not supported", path=step.path
        )


def _through(step: Step, elements: _Elements, default: str) -> _Elements:
    """The elements that a codec returns for its input. MetadataError where a filter would read them in a byte order that they do not have."""
    decoded, encoded = _orders(step.extension, step.path)
    if decoded is None or encoded is None:
        if step.extension.name == "numcodecs.packbits":
            return _Elements(1, "|")
        return elements if step.extension.name.startswith("numcodecs.") else elements._replace(order=default)
    _check_size(decoded, elements.itemsize, step.path)
    if "|" not in {decoded.order, elements.order} and decoded.order != elements.order:
        raise MetadataError(
            f"the filter takes elements in byte order {found(decoded.order)}, but gets them in {found(elements.order)};"
            " numcodecs swaps their bytes there, which is not supported",
            path=step.path,
        )
    return encoded


def _check_size(decoded: _Elements, itemsize: int, path: str) -> None:
    """Only single bytes may be viewed as elements of another size: with larger ones the result of numcodecs depends on the machine."""
    if itemsize not in {1, decoded.itemsize}:
        raise MetadataError(
            f"the filter takes elements of {decoded.itemsize} bytes, but gets them of {itemsize} bytes", path=path
        )


def _orders(extension: Extension, path: str) -> tuple[_Elements | None, _Elements | None]:
    """The elements that a filter takes and returns, according to its configuration; None where it has no such member."""
    settings = extension.configuration
    if extension.name == "numcodecs.astype":
        decoded, encoded = settings.get("decode_dtype"), settings.get("encode_dtype")
    else:
        decoded = settings.get("dtype")
        encoded = settings.get("astype") or decoded
    return _elements(decoded, path), _elements(encoded, path)


def _elements(dtype: Json, path: str) -> _Elements | None:
    if dtype is None:
        return None
    try:
        parsed = np.dtype(dtype if isinstance(dtype, str) else "")
    except (TypeError, ValueError, SyntaxError, KeyError):
        raise refusal(path, "a filter with a dtype in NumPy's spelling", dtype) from None
    return _Elements(parsed.itemsize, parsed.str[0])


def emit_chain(
    codecs: Sequence[Extension], *, ndim: int, itemsize: int, old: bool, endian_codec: bool = True
) -> EmittedChain:
    """Undoes parse_chain, except for the typesize of blosc, for which the draft has no member (frames contain it).

    itemsize      bytes of an element
    old           the older dialect, in the form of zarr-python 2.18
    endian_codec  False where the name of the data type contains the byte order in December 2022 too (datetimes, strings): then `big` has it
    Raises MetadataError for chains that the dialect cannot express."""
    layout, other_codecs = _layout(codecs, ndim)
    at = next((n for n, codec in enumerate(other_codecs) if codec.name in {"bytes", "endian"}), None)
    for n, codec in enumerate(other_codecs):
        if codec.name == "transpose":
            raise MetadataError(
                "codec transpose can be expressed in the draft only first in the chain, as one of the layouts C and F",
                path=_path(codecs, codec),
            )
        if n != at and codec.name in {"bytes", "endian"}:
            raise MetadataError(f"codec {codec.name} is in the chain twice", path=_path(codecs, codec))
    endian = None if at is None else other_codecs[at].configuration.get("endian")
    again = at is not None and [codec.name for codec in other_codecs[at + 1 : at + 2]] == [ON_BYTES]
    if old:
        before = [codec for codec in other_codecs[:at] if at is not None]
        after = other_codecs if at is None else other_codecs[at + 1 :]
        if again and itemsize > 1:
            raise MetadataError(
                "a filter over the bytes of larger elements cannot be expressed in the older dialect",
                path=_path(codecs, after[0]),
            )
        ordered, big = _ordered(before, ">" if endian == "big" else "<", itemsize, codecs)
        return _emit_old(ordered, after, big, layout, codecs)
    # little-endian is the default without a codec too, but not before an array codec, which would get the elements then
    is_explicit = endian == "big" or (again and endian is not None)
    entries: list[Json] = [
        emit_entry(codec, _path(codecs, codec))
        for n, codec in enumerate(other_codecs)
        if n != at or (is_explicit and endian_codec)
    ]
    return EmittedChain(entries, None, None, layout, endian == "big" and not endian_codec)


def emit_numcodecs_chain(codecs: Sequence[Extension], *, ndim: int, itemsize: int) -> EmittedChain:
    """As emit_chain, with the compressor in numcodecs' configuration: for documents of Zarr v2."""
    emitted = emit_chain(codecs, ndim=ndim, itemsize=itemsize, old=True)
    if emitted.compressor is None:
        return emitted
    return emitted._replace(compressor=emit_numcodecs(codecs[-1], item("codecs", len(codecs) - 1)))


def _path(codecs: Sequence[Extension], codec: Extension) -> str:
    return item("codecs", next(n for n, other in enumerate(codecs) if other is codec))


def _layout(codecs: Sequence[Extension], ndim: int) -> tuple[Literal["C", "F"], list[Extension]]:
    """The layout that the transpositions at the beginning of a chain make together, and the codecs behind them."""
    order = list(range(ndim))
    for n, codec in enumerate(codecs):
        if codec.name != "transpose":
            other_codecs = list(codecs[n:])
            break
        path = f"{item('codecs', n)}.configuration.order"
        axes = check_integers(codec.configuration.get("order"), path, 0, ndim - 1, ndim)
        order = [order[axis] for axis in axes]
    else:
        other_codecs = []
    if order == list(range(ndim)):
        return "C", other_codecs
    if order == list(range(ndim - 1, -1, -1)):
        return "F", other_codecs
    raise MetadataError(
        f"dimensions in the order {order} cannot be expressed in the draft, whose chunk_memory_layout is C or F (all dimensions reversed)",
        path="codecs[0].configuration.order",
    )


def _emit_old(
    before: Sequence[Extension],
    after: Sequence[Extension],
    big: bool,
    layout: Literal["C", "F"],
    codecs: Sequence[Extension],
) -> EmittedChain:
    """The last codec becomes the compressor where the dialect has a URI for it; all others are filters."""
    compressor = emit_compressor(after[-1], _path(codecs, after[-1])) if after else None
    filtering = [*before, *(after if compressor is None else after[:-1])]
    filters: list[Json] = []
    for n, codec in enumerate(filtering):
        filters.append(emit_numcodecs(codec, item("codecs", n)))
    return EmittedChain([], compressor, filters or None, layout, big)


def _ordered(
    before: Sequence[Extension], order: Literal["<", ">"], itemsize: int, codecs: Sequence[Extension]
) -> tuple[Sequence[Extension], bool]:
    """Filters whose byte orders fit each other and the stored `order`; and whether the first one's input is big-endian. MetadataError if sizes do not fit."""
    first, current = None, "|"
    fits = True
    for codec in before:
        path = _path(codecs, codec)
        decoded, encoded = _orders(codec, path)
        if decoded is None or encoded is None:
            continue
        _check_size(decoded, itemsize, path)
        itemsize = encoded.itemsize
        first = first or (decoded.order if decoded.order != "|" else None)
        fits = fits and ("|" in {decoded.order, current} or decoded.order == current)
        current = encoded.order
    fits = fits and current in {"|", order}
    if fits:
        return before, (first or order) == ">"
    return [_reordered(codec, order) for codec in before], order == ">"


def _reordered(codec: Extension, order: Literal["<", ">"]) -> Extension:
    """The filter with its types in a byte order; the numbers that it makes are the same."""
    settings = {
        name: np.dtype(str(value)).newbyteorder(order).str if name.endswith("type") and value is not None else value
        for name, value in codec.configuration.items()
    }
    return Extension(codec.name, settings)
