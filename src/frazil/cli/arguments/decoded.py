"""`--decoded`: elements as xarray decodes them. The decoding is in integrations/xarray/decoded_array.py."""

from __future__ import annotations

from argparse import ArgumentParser

from frazil.base.optional_package import load_package
from frazil.errors import InvalidInputError
from frazil.integrations.xarray import decoded_array
from frazil.operations.window import Window


def add_decoded(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--decoded",
        action="store_true",
        help="decode values as xarray does, by the attributes scale_factor, add_offset, _FillValue, missing_value and units of time (needs frazil[xarray])",
    )


def decoded(window: Window) -> Window:
    """The same selection of the decoded array. Raises InvalidInputError where xarray is missing, MetadataError for attributes that cannot be decoded."""
    load_package("xarray", "--decoded needs", "xarray")
    try:
        return window._replace(source=decoded_array.DecodedArray(window.array))
    except ImportError as error:
        raise InvalidInputError(
            f"--decoded needs cftime for other calendars: {error}",
            path=window.array.path or "/",
            hint="pip install cftime",
        ) from error
