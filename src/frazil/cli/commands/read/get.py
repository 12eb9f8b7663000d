"""`frazil get`: elements as text, CSV, JSON or a .npy file. cli/formats.py writes them."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from os.path import basename, splitext
from typing import Final

from frazil.cli.arguments.decoded import add_decoded, decoded
from frazil.cli.arguments.locations import add_selection, open_window
from frazil.cli.command import Command, add_location
from frazil.cli.formats import WRITERS, abbreviated
from frazil.cli.output import binary_output, print_text
from frazil.cli.progress import Progress

_TEXT: Final = "text"
_ENDINGS: Final = {".txt": _TEXT, ".text": _TEXT, **{f".{form}": form for form in WRITERS if form != _TEXT}}


def add_arguments(parser: ArgumentParser) -> None:
    add_location(parser)
    add_selection(parser)
    add_decoded(parser)
    parser.add_argument(
        "--format",
        choices=tuple(WRITERS),
        help="the format (default: by the ending of FILE: .txt, .csv, .json or .npy; or text)",
    )
    parser.add_argument("--json", dest="format", action="store_const", const="json", help="the same as --format json")
    parser.add_argument("--full", action="store_true", help="do not abbreviate text")
    parser.add_argument("-o", "--output", metavar="FILE", help="the file to write; - is standard output")


def run(options: Namespace) -> None:
    output = None if options.output == "-" else options.output
    form: str = options.format or _of_name(options, output)
    if form == "npy" and output is None and sys.stdout.isatty():
        options.refuse(".npy is not for terminals: give -o FILE")
    window = open_window(options)
    if options.decoded:
        window = decoded(window)
    if form == "text" and not options.full:
        text = abbreviated(window)
        if output is None:
            print_text(text)
            return
        with binary_output(output) as stream:
            stream.write(f"{text}\n".encode())
        return
    mixes = output is None and sys.stdout.isatty()  # a progress bar would mix with the elements
    with Progress("reading", window.nbytes, shows=not mixes) as report, binary_output(output) as stream:
        WRITERS[form](window, stream, report)


def _of_name(options: Namespace, output: str | None) -> str:
    """The format by the ending of a name; text without one."""
    name = basename(output or "").lower()
    ending = name if name in _ENDINGS else splitext(name)[1]
    if ending and ending not in _ENDINGS:
        options.refuse(
            f"the format cannot be derived from the name {output}: give --format, or a name that ends in {', '.join(_ENDINGS)}"
        )
    return _ENDINGS[ending] if ending else _TEXT


COMMAND = Command(
    "get",
    "elements of an array, as text, CSV, JSON or .npy",
    "Prints a selection as NumPy does. A large selection is abbreviated, and only the elements that are shown "
    "are read. With --format or -o it is written as CSV (up to two dimensions), JSON or .npy. CSV and .npy are "
    "written piece by piece, so a selection may be larger than memory. Structs are objects in JSON. In CSV, "
    "structs in one dimension have a column for each field, with the names in the first line.",
    (
        ('frazil get sea.zarr "10, ::-2"', "row 10, every other column from the last on"),
        (
            'frazil get ocean.zarr level1/temp "0, [3, 1], ..."',
            "lines 3 and 1 of the first, of an array within a group",
        ),
        ('frazil get sea.zarr ":100, :100" -o corner.csv', "a corner as CSV"),
        ('frazil get sea.zarr "::4, ::4" --format npy -o sea.npy', "every fourth element, for NumPy"),
        ('frazil get sea.repo@v1 level1/temp "0, 0, :5"', "elements as they were at a tag of a repository"),
        ('frazil get sea.zarr "0, :5" --decoded', "scaled, with missing values as NaN and times as dates"),
        ('frazil get sea.zarr "0, :5" --json', "five elements, as JSON"),
    ),
    add_arguments,
    run,
    prints_json=False,
)
