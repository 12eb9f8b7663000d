"""`frazil set`: sets elements of an array to a value or the content of a .npy file. cli/arguments/values.py reads values from words and files."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from functools import partial

from frazil.cli.arguments.locations import add_selection, open_to_write, open_window
from frazil.cli.arguments.values import open_values
from frazil.cli.branch_writes import add_message, print_written, writable
from frazil.cli.command import Command, add_location
from frazil.cli.progress import Progress
from frazil.metadata.json_text import Json
from frazil.operations.assignment import assign


def add_arguments(parser: ArgumentParser) -> None:
    add_location(
        parser,
        "a folder or URL with an array or group; nodes below it may follow as in sea.zarr/level1; or a branch of a repository, as in sea.repo@main",
    )
    add_selection(parser)
    parser.add_argument(
        "value",
        metavar="VALUE",
        help="one value for all elements, as in 0, NaN or 2026-11-23; or a .npy file, whose shape broadcasts to that of the selection; - is a .npy file on standard input",
    )
    add_message(parser, "LOCATION")


def run(options: Namespace) -> None:
    snapshot = None
    with writable(options, options.location, "LOCATION as sea.repo@main", options.virtual_prefix) as target:
        window = open_window(options, partial(open_to_write, options.location, target=target))
        with (
            open_values(options.value, window.array.metadata.data_type) as values,
            Progress("writing", window.nbytes) as report,
        ):
            assign(window, values, report)
        if target is not None:
            message = options.message or f"Set elements of {window.array.path or '/'}"
            snapshot = target.session.commit(message, rebase="disjoint", allow_empty=True)
    document: dict[str, Json] = {"path": window.array.path, "shape": list(window.shape), "nbytes": window.nbytes}
    shape = " x ".join(map(str, window.shape)) or "1"
    print_written(options, document, f"{shape} element{'' if shape == '1' else 's'} set", snapshot)


COMMAND = Command(
    "set",
    "sets elements of an array, from a value, a .npy file or standard input",
    "Writes a selection: one value for all elements, or the elements of a .npy file. The file may be larger "
    "than memory; each shard is written once. Floating-point values are rounded to the data type of the array. "
    "Any other value that the data type cannot hold exactly is an error, and nothing is written. On a branch "
    "of a repository the change is one commit. If the command is interrupted, a plain array may have some of "
    "the new values: run the command again. A branch has none of them.",
    (
        ('frazil set sea.zarr "10, ::-2" 7', "every other element of row 10"),
        ('frazil set ocean.zarr level1/temp "0, ..." NaN', "a whole map of an array within a group"),
        (
            'frazil set sea.zarr ":2, :3" corner.npy',
            'a corner, from the file that `frazil get sea.zarr ":2, :3" -o corner.npy` wrote',
        ),
        ('frazil set sea.repo@dev level1/temp "0" 4.5 -m "a new first map"', "as one commit on a branch"),
    ),
    add_arguments,
    run,
)
