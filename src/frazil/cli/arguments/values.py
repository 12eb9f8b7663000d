"""Values on the command line: one value in words, a .npy file, or a .npy file from standard input."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator

import numpy as np

from frazil.base.arrays import Values
from frazil.errors import InvalidInputError, MetadataError
from frazil.metadata.types.core import DataType


@contextlib.contextmanager
def open_values(text: str, data_type: DataType) -> Iterator[Values]:
    """The values that an argument names: "-" is a .npy file on standard input, a name that ends in .npy a file, and any other text one value of the data type.
    Files are mapped, not read. Raises InvalidInputError, and OSError that names the file."""
    if text == "-":
        with tempfile.NamedTemporaryFile(
            suffix=".npy"
        ) as copy:  # a pipe can be read only once, but shards may need another order
            shutil.copyfileobj(sys.stdin.buffer, copy, 2**20)
            copy.flush()
            yield _mapped(copy.name, "standard input")
    elif text.lower().endswith(".npy"):
        yield _mapped(text, text)
    else:
        yield parse_value(text, data_type)


def _mapped(file: str, name: str) -> Values:
    try:
        try:
            values: Values = np.load(file, mmap_mode="r", allow_pickle=False)
        except ValueError:
            values = np.load(file, allow_pickle=False)  # an empty array cannot be mapped
    except (ValueError, EOFError) as error:
        raise InvalidInputError(f"this is not a .npy file: {error}", path=name) from None
    if not isinstance(values, np.ndarray):
        raise InvalidInputError("this is not a .npy file", path=name, hint="numpy.save writes one")
    return values


def parse_value(text: str, data_type: DataType) -> Values:
    """One element in words: a number, true or false, NaN, Infinity, 1+2j, a time in ISO 8601, the text itself for types of text, or a fill value in JSON, as in
    documents. Raises InvalidInputError for a value that the type does not have."""
    value: object = text
    if data_type.dtype.kind not in "SU" and not isinstance(data_type.zero.scalar, str):
        value = _in_words(text.strip())
    try:
        element = data_type.fill_from_user(value, "VALUE").scalar
    except MetadataError as error:
        raise InvalidInputError(
            f"{text.strip()!r} is not a value of {data_type.label}: {error.message.removeprefix('VALUE must be ')}",
            hint="a value, a file whose name ends in .npy, or - for one on standard input",
        ) from None
    # not by asarray: text and bytes of any length would lose zeros at their ends
    values = np.empty((), data_type.dtype)
    values[()] = element
    return values


def _in_words(text: str) -> object:
    if text in ("True", "False"):  # as Python prints them
        return text == "True"
    for kind in (int, float, complex):
        with contextlib.suppress(ValueError):
            return kind(text)
    try:
        return json.loads(text)
    except ValueError:
        return text
