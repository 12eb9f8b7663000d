"""`frazil view`: a 2-d selection as a picture. The reduction and the drawing are in operations/."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from math import isfinite

from frazil.cli.arguments.decoded import add_decoded, decoded
from frazil.cli.arguments.locations import add_selection, open_window
from frazil.cli.command import Command, add_location, whole_number
from frazil.cli.output import binary_output, check_picture, print_result
from frazil.cli.progress import Progress
from frazil.metadata.json_text import Json
from frazil.operations.view.colours import CODES, COLOUR_MAPS
from frazil.operations.view.coordinates import caption, meanings
from frazil.operations.view.figure import draw_bare, draw_figure
from frazil.operations.view.overview import MOST_PIXELS, Method, Overview, overview
from frazil.operations.view.picture import are_codes, colour_scale, extremes
from frazil.operations.view.png import encode_png


def add_arguments(parser: ArgumentParser) -> None:
    add_location(parser)
    add_selection(parser)
    add_decoded(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="the PNG file to write; - is standard output"
    )
    parser.add_argument(
        "--size",
        metavar="PIXELS",
        type=whole_number(f"a number of pixels from 1 to {MOST_PIXELS}", 1, MOST_PIXELS),
        default=1024,
        help="the longer side of the picture of the values, at most (default: 1024)",
    )
    parser.add_argument(
        "--method",
        choices=("auto", "mean", "nearest"),
        default="auto",
        help="the value of a pixel that covers several elements: their mean, or the middle one (nearest), which is faster; auto (default) is mean, and nearest for codes",
    )
    parser.add_argument(
        "--cmap",
        choices=COLOUR_MAPS,
        help=f"colours: {', '.join(COLOUR_MAPS)}; {CODES} gives distinct colours to few values (default: dusk, or {CODES} for an array with flag_meanings)",
    )
    parser.add_argument("--title", metavar="TEXT", help="the title (default: long_name and units of the array)")
    parser.add_argument(
        "--bare", action="store_true", help="draw only the values: no title, axes, colour bar or legend"
    )
    parser.add_argument(
        "--min",
        metavar="VALUE",
        type=_number,
        help="the value of the first colour (default: the least value)",
    )
    parser.add_argument(
        "--max",
        metavar="VALUE",
        type=_number,
        help="the value of the last colour (default: the greatest value)",
    )
    parser.add_argument("--hide-fill", action="store_true", help="treat elements that equal the fill value as NaN")
    parser.add_argument(
        "--missing", choices=("grey", "transparent"), default="grey", help="how NaN is drawn (default: grey)"
    )


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not isfinite(number):
        raise ArgumentTypeError(f"{text!r} is not a number")
    return number


def run(options: Namespace) -> None:
    check_picture(options)
    if options.decoded and options.hide_fill:
        options.refuse("--hide-fill is for stored elements: --decoded hides what the attributes call missing")
    window = open_window(options)
    hide = window.array.metadata.fill_value.scalar if options.hide_fill else None
    codes = meanings(window.array.attrs.asdict())
    method: Method = "nearest" if codes and options.method == "auto" else options.method
    if options.decoded:
        window = decoded(window)
    with Progress("reading", window.nbytes) as report:
        reduced = overview(window, options.size, method=method, hide=hide, report=report)
    scale = colour_scale(
        reduced.values,
        options.cmap or (CODES if codes and are_codes(reduced.values, options.min, options.max) else "dusk"),
        low=options.min,
        high=options.max,
        transparent=options.missing == "transparent",
    )
    if options.bare:
        pixels = draw_bare(reduced.values, scale)
    else:
        words = caption(window, decoded if options.decoded else None)
        if options.title is not None:
            words = words._replace(title=options.title)
        pixels = draw_figure(reduced.values, scale, words, reduced.factor, codes)
    with binary_output(options.output) as stream:
        stream.write(encode_png(pixels))
    height, width = reduced.values.shape
    squares = f", each of {reduced.factor} x {reduced.factor} elements" if reduced.factor > 1 else ""
    text = "" if options.output == "-" else f"{options.output}: {width} x {height} values{squares}"
    print_result(options, _report(options.output, reduced), text)


def _report(path: str, reduced: Overview) -> dict[str, Json]:
    """The size of the overview, the elements along each side of one of its values, the least and greatest value (null where all are NaN)."""
    height, width = reduced.values.shape
    least, greatest = extremes(reduced.values) or (None, None)
    return {
        "path": path,
        "width": width,
        "height": height,
        "elements_per_value": [reduced.factor, reduced.factor],
        "min": least,
        "max": greatest,
    }


COMMAND = Command(
    "view",
    "a slice, or an overview of a large array, as a PNG picture",
    "Draws a selection with two dimensions. The axes show coordinates if there are any: one-dimensional arrays "
    "in the same group, named like the dimensions. If the vertical coordinate increases, as a latitude often "
    "does, greater values are at the top; otherwise the first row is at the top. If there are at most 16 "
    "distinct values, a legend replaces the colour bar, unless --min or --max is given. An array with more "
    "elements than pixels is reduced piece by piece, in bounded memory. NaN is grey, or transparent.",
    (
        ("frazil view sea.zarr -o sea.png", "the whole array, whatever its size"),
        ('frazil view ocean.zarr level1/temp "0, :, :" -o temp.png --cmap ice', "one slice of three dimensions"),
        ('frazil view sea.zarr ":500, :500" -o corner.png --min 0 --max 100', "a corner, colours from 0 to 100"),
        ("frazil view sea.zarr -o quick.png --method nearest --size 256", "a quick look"),
        ("frazil view sea.zarr -o sea.png --decoded", "values scaled by the attributes, without missing values"),
        ("frazil view basins.zarr -o basins.png --cmap codes", "at most 64 codes, a colour for each"),
        ("frazil view sea.zarr -o sea.png --bare", "only the values, for a page that has its own axes"),
        ("frazil view sea.zarr -o sea.png --json", "as JSON: size, elements per value, least and greatest value"),
    ),
    add_arguments,
    run,
)
