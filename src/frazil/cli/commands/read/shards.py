"""`frazil shards`: the layout inside stored shards."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace

from frazil.base.reports import columns
from frazil.cli.arguments.locations import add_path, add_virtual_prefix, as_array, open_node
from frazil.cli.command import Command, add_location, whole_number
from frazil.cli.output import binary_output, check_picture, print_json, print_text
from frazil.errors import InvalidInputError
from frazil.operations.shards.picture import draw_shard, shard_text
from frazil.operations.shards.shards import Shard, Shards, shards
from frazil.operations.view.png import encode_png


def add_arguments(parser: ArgumentParser) -> None:
    add_location(parser)
    add_path(parser)
    parser.add_argument(
        "--shard",
        metavar="I,J,...",
        type=_coordinates,
        help="show one shard, given by its position in the grid of shards: each inner chunk, and a picture in characters",
    )
    parser.add_argument(
        "-n",
        "--most",
        metavar="N",
        type=whole_number("a number of rows", 1, 10**9 - 1),
        default=40,
        help="at most N rows of the table (default: 40)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write a PNG picture of the bytes of the shard (default: the first one); - is standard output",
    )
    add_virtual_prefix(parser)


def _coordinates(text: str) -> tuple[int, ...]:
    parts = text.replace(" ", "").split(",")
    if not all(part.isdecimal() and len(part) < 20 for part in parts):
        raise ArgumentTypeError(f"{text!r} is not a position in a grid, as in 0,1")
    return tuple(map(int, parts))


def run(options: Namespace) -> None:
    check_picture(options)
    array = as_array(open_node(options.location, options.path or "", options.virtual_prefix))
    found = shards(array, shard=options.shard)
    if options.output is not None:
        if not found.shards:
            raise InvalidInputError("no shard is stored, so that there is nothing to draw", path=array.path or "/")
        drawn = found if options.shard is not None else shards(array, shard=found.shards[0].coords)
        if drawn.shards[0].error is not None:
            raise InvalidInputError(f"the shard cannot be drawn: {drawn.shards[0].error}", path=array.path or "/")
        with binary_output(options.output) as stream:
            stream.write(encode_png(draw_shard(drawn.shards[0])))
        if options.output == "-":
            return
    if options.json:
        print_json(found.to_json())
        return
    print_text("\n".join(_lines(found, options.most, pieces=options.shard is not None)))


def _lines(found: Shards, most: int, *, pieces: bool) -> list[str]:
    lines = found.lines(most)
    if pieces and found.shards[0].error is None:
        lines += ["", *_pieces(found.shards[0], most), "", shard_text(found.shards[0])]
    return lines


def _pieces(shard: Shard, most: int) -> list[str]:
    """A line for each of the first pieces: where it begins, its bytes, its kind."""
    rows = [("start", "bytes", "what")]
    for piece in shard.pieces[:most]:
        name = piece.kind if piece.chunk is None else f"inner chunk {', '.join(map(str, piece.chunk))}"
        rows.append((str(piece.start), str(piece.nbytes), name))
    lines = columns(rows)
    if len(shard.pieces) > most:
        lines.append(f"and {len(shard.pieces) - most:,} more pieces")
    return lines


COMMAND = Command(
    "shards",
    "inner chunks in the stored shards of an array: number, order, unused bytes",
    "Prints a line for each stored shard: the number of its inner chunks, its size, the size of its index, the "
    "bytes that no inner chunk uses (earlier writes can leave some), and the order of the inner chunks: C, F, "
    "Morton, or as written. With --shard it prints each inner chunk of one shard, and a picture of the bytes "
    "of the shard in characters. With -o it writes this picture as PNG: the colour of an inner chunk shows its "
    "position in the grid, the index is dark, and unused bytes are grey. Only indexes are read.",
    (
        ("frazil shards sea.zarr", "all shards of an array"),
        ("frazil shards sea.zarr --shard 0,1", "each inner chunk of one shard"),
        ("frazil shards old.zr3 level1/temp --json", "as JSON; sizes are in bytes"),
        ("frazil shards sea.zarr --shard 1,2 -o shard.png", "a picture of its bytes"),
    ),
    add_arguments,
    run,
)
