"""Elements of every data type as cells of CSV and as JSON. formats.py writes selections piece by piece."""

from __future__ import annotations

from itertools import product

import numpy as np

from frazil.base.arrays import Values
from frazil.metadata.json_text import Json

_QUOTED = ',"\r\n'
_OTHERS = 256  # numbers of dtypes that other packages register begin here; StringDType has a larger one, too


def cells(values: Values) -> list[str]:
    """A cell for each element of values[n]; for structs a cell for each of `columns`, element by element. Numbers read back as the same values;
    raw bytes are hexadecimal digits, datetimes ISO 8601, timedeltas the number of their units, text is quoted where it needs quotes."""
    if values.dtype.names is not None:
        leaves = [cells(leaf) for leaf in _leaves(values)]
        return [cell for row in zip(*leaves, strict=True) for cell in row]
    values = _plain(values)
    kind = values.dtype.kind
    if kind == "V":
        return [bytes(value).hex() for value in values]
    if kind in "mM":
        return list(map(str, _times(values)))
    if kind in "SU":
        return [_quoted(text) for text in _texts(values)]
    if kind in "OT":
        return ["" if text is None else _quoted(text) for text in _any_length(values)]
    if kind in "fc" and values.dtype != np.float64:
        return [str(value) for value in values.astype(np.str_).tolist()]
    return list(map(str, values.tolist()))


def columns(dtype: np.dtype[np.generic], prefix: str = "") -> list[str]:
    """The names of the cells of a struct: its fields, with dots for nested ones and sub-arrays."""
    if dtype.names is None:
        if dtype.subdtype is None:
            return [_quoted(prefix)]
        base, shape = dtype.subdtype
        positions = product(*map(range, shape))
        return [name for position in positions for name in columns(base, ".".join([prefix, *map(str, position)]))]
    start = f"{prefix}." if prefix else ""
    return [column for name in dtype.names for column in columns(_field_dtype(dtype, name), start + name)]


def encoded(text: str) -> bytes:
    """UTF-8; bytes that were not UTF-8 become the same bytes again."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a surrogate pair
        return text.encode("utf-8", "surrogatepass")


def json_values(values: Values) -> Json:
    """Nested lists of JSON values: structs as objects, other elements in the form of fill values. But strings of bytes are UTF-8 text, in which
    other bytes are U+DC80 to U+DCFF, and datetimes are ISO 8601."""
    if values.dtype.names is not None:
        return _objects(values)
    values = _plain(values)
    kind, size = values.dtype.kind, values.dtype.itemsize
    if kind in "mMS":
        flat = _texts(values) if kind == "S" else _times(values)
        return _nested(flat, values.shape)
    if kind in "OT":
        return _nested(_any_length(values), values.shape)
    if kind == "c":
        values, kind, size = values[..., None].view(f"f{size // 2}"), "f", size // 2
    if kind == "V":
        values = values[..., None].view(np.uint8)
    if kind == "f":
        # 0.1 for the float32, not 0.10000000149
        exact = values if size == 8 else values.astype(np.str_).astype(np.float64)
        values = exact.astype(np.object_)
        for name, positions in (
            ("NaN", np.isnan(exact)),
            ("Infinity", exact == np.inf),
            ("-Infinity", exact == -np.inf),
        ):
            values[positions] = name
    plain: Json = values.tolist()
    return plain


def as_text(values: Values, *, threshold: int = 1000, edgeitems: int = 3, max_line_width: int = 75) -> str:
    """The text that NumPy prints; datetimes that it cannot print, without a unit or too far away, as the number of their units."""

    def text(every: bool) -> str:
        dtype = _printable(values.dtype, every)
        shown = values if dtype == values.dtype else values.view(dtype)
        return np.array2string(shown, threshold=threshold, edgeitems=edgeitems, max_line_width=max_line_width)

    try:
        return text(every=False)
    except OverflowError:
        return text(every=True)


def _printable(dtype: np.dtype[np.generic], every: bool) -> np.dtype[np.generic]:
    """The dtype with timedeltas in place of datetimes without a unit, or of `every` datetime."""
    if dtype.names is not None:
        assert dtype.fields is not None
        fields = [dtype.fields[name] for name in dtype.names]
        return np.dtype(
            {
                "names": list(dtype.names),
                "formats": [_printable(field[0], every) for field in fields],
                "offsets": [field[1] for field in fields],
                "itemsize": dtype.itemsize,
            }
        )
    if dtype.subdtype is not None:
        return np.dtype((_printable(dtype.base, every), dtype.shape))
    if dtype.kind != "M" or (_has_unit(dtype) and not every):
        return dtype
    return np.dtype(dtype.str.replace("M", "m"))


def _has_unit(dtype: np.dtype[np.generic]) -> bool:
    return np.datetime_data(dtype)[0] != "generic"  # type: ignore[arg-type]


def _leaves(values: Values) -> list[Values]:
    """Fields of values[n] that are not structs, with each element of a sub-array separate: [n] each."""
    if values.dtype.names is not None:
        return [leaf for name in values.dtype.names for leaf in _leaves(_field(values, name))]
    if values.ndim > 1:
        flat = values.reshape(len(values), -1)
        return [leaf for at in range(flat.shape[1]) for leaf in _leaves(flat[:, at])]
    return [values]


def _field_dtype(dtype: np.dtype[np.generic], name: str) -> np.dtype[np.generic]:
    field: np.dtype[np.generic] = dtype[name]  # type: ignore[misc]
    return field


def _field(values: Values, name: str) -> Values:
    field: Values = values[name]  # type: ignore[call-overload]
    return field


def _times(values: Values) -> list[int | str]:
    """All elements, in C order."""
    flat = np.ascontiguousarray(values.reshape(-1)).astype(values.dtype.newbyteorder("="))
    if flat.dtype.kind == "M" and _has_unit(flat.dtype):
        try:
            texts: list[int | str] = np.datetime_as_string(flat).tolist()  # type: ignore[arg-type]
        except OverflowError:  # a date that NumPy cannot print: convert each one separately
            texts = [_time(flat[at : at + 1]) for at in range(len(flat))]
        return texts
    counts: list[int] = flat.view(np.int64).tolist()
    return ["NaT" if count == -(2**63) else count for count in counts]


def _time(value: Values) -> int | str:
    """value[1], as a date where NumPy can print it."""
    try:
        text: str = np.datetime_as_string(value)[0]  # type: ignore[arg-type]
        return str(text)
    except OverflowError:
        return int(value.view(np.int64)[0])


def _texts(values: Values) -> list[str]:
    """All elements, in C order."""
    flat: list[str | bytes] = values.reshape(-1).tolist()
    return [text if isinstance(text, str) else text.decode("utf-8", "surrogateescape") for text in flat]


def _any_length(values: Values) -> list[str | None]:
    """All elements, text or bytes of any length, in C order; None for missing ones."""
    flat: list[str | bytes | None] = values.reshape(-1).tolist()
    return [text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else text for text in flat]


def _plain(values: Values) -> Values:
    """Numbers of types that other packages register with NumPy, as NumPy's own types."""
    if values.dtype.num < _OTHERS or values.dtype.kind == "T":
        return values
    return values.astype(np.int8 if "int" in values.dtype.name else np.float32)


def _quoted(text: str) -> str:
    """In the form of RFC 4180. Empty text is quoted, because many readers ignore an empty line."""
    if text and not any(character in text for character in _QUOTED):
        return text
    return '"' + text.replace('"', '""') + '"'


def _objects(values: Values) -> Json:
    flat = values.reshape(-1)
    names = flat.dtype.names or ()
    fields = [json_values(_field(flat, name)) for name in names]
    rows = zip(*[field if isinstance(field, list) else [field] for field in fields], strict=True)
    return _nested([dict(zip(names, row, strict=True)) for row in rows], values.shape)


def _nested(
    flat: list[int | str] | list[str] | list[str | None] | list[dict[str, Json]], shape: tuple[int, ...]
) -> Json:
    """A list of elements in C order as nested lists."""
    nested = np.empty(len(flat), np.object_)
    nested[:] = flat
    plain: Json = nested.reshape(shape).tolist()
    return plain
