"""The command `frazil`: its parser, and how errors end it. Each command has a file of its own."""

from __future__ import annotations

import os
import re
import sys
import warnings
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter, _SubParsersAction
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import frazil
from frazil.cli.command import Command
from frazil.cli.commands import cache, completion, serve
from frazil.cli.commands.read import checksum, du, get, info, ls, shards, tree, validate, view
from frazil.cli.commands.repo import branch, diff, expire, gc, init, log, merge, repair, show, stats, tag, verify
from frazil.cli.commands.repo import du as repo_du
from frazil.cli.commands.write import convert, copy, export, import_, rechunk, set_
from frazil.cli.hints import with_options
from frazil.errors import FallbackWarning, FrazilError, RedirectWarning, one_line

COMMANDS: Final[tuple[Command, ...]] = (
    *[
        module.COMMAND
        for module in (
            *(info, tree, ls, du, get, set_, view, checksum, validate, shards, convert, rechunk, copy, import_, export),
            *(serve, cache, completion),
            *(init, log, diff, branch, tag),
        )
    ],
    *merge.COMMANDS,
    *[module.COMMAND for module in (show, stats, repo_du, gc, expire, verify, repair)],
)
GROUPS: Final[dict[str, tuple[str, str]]] = {
    "repo": (
        "repositories: history, branches, tags, maintenance",
        "Creates repositories, and shows, checks and cleans their history. The other commands read and write arrays in them, at LOCATION@REF.",
    )
}  # of commands: summary and description

DESCRIPTION: Final = (
    "Reads, writes, converts and checks large N-dimensional arrays (Zarr v3 with sharding), and repositories of them."
)
TOUR: Final = """\
a short tour:
  frazil info sea.zarr                        what an array is: shape, type, chunks, codecs, sizes
  frazil tree ocean.zarr                      the arrays and groups below a group
  frazil ls ocean.zarr --long                 its members, and the bytes that are stored
  frazil get sea.zarr "10, ::-2"              elements, selected as in Python
  frazil get sea.zarr ":100, :100" -o a.csv   the same into a file: .csv, .npy or .json
  frazil set sea.zarr ":10, :10" 0            set elements to a value, or to those of a .npy file
  frazil du ocean.zarr                        bytes of all arrays and groups, decoded and stored
  frazil checksum ocean.zarr                  checksums of the content, independent of how it is stored
  frazil shards sea.zarr                      the inner chunks of its shards, and unused bytes
  frazil validate ocean.zarr --decode         check that everything that is stored can be read
  frazil view sea.zarr -o sea.png             a picture of an array of any size
  frazil convert old.zr3 new.zarr             a hierarchy of a draft to final Zarr v3
  frazil rechunk sea.zarr rows.zarr --chunks 1,700 --shards none   an array with other chunks, shards or codecs
  frazil copy ocean.zarr copy.zarr            a copy at another place, without decoding
  frazil import ocean.nc new.repo             a file (NetCDF, HDF5, NumPy, TIFF, GRIB) into a repository or plain Zarr
  frazil export sea.repo@v1 v1.nc             a group or an array as a file (NetCDF, HDF5, NumPy, TIFF)
  frazil repo log sea.repo --graph            the history of a repository, its branches and tags
  frazil get sea.repo@v1 level1/temp "0, 0"   elements as they were at a tag, on a branch, in a snapshot

LOCATION is a folder, a zip archive or a URL (s3://, gs://, az://, https://). The path of a node may follow it,
as in `frazil info ocean.zarr level1/temp`. A repository is read at its branch main. sea.repo@REF names another
snapshot: REF is a branch, a tag, or the id of a snapshot, of which the first 4 characters or more are enough.
If there is a folder with this whole name, @ included, the folder is meant.
Keys of buckets come from the environment, as for the tools of the cloud (docs/object-stores.md).
`frazil COMMAND --help` shows details and examples. Exit status: 0 success, 1 an error (one line on standard
error), 2 wrong usage."""

# a selection such as -3: or a number; behind a space, so that argparse does not parse it as an option
_NEGATIVE: Final = re.compile(r"-\d")
_INTERRUPTED: Final = 130  # 128 and the number of the signal, as shells count
_PIPE_CLOSED: Final = 141


def build_parser() -> ArgumentParser:
    parser = ArgumentParser("frazil", description=DESCRIPTION, epilog=TOUR, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version", version=f"frazil {frazil.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    groups = {"": commands}
    for command in COMMANDS:
        group, _, name = command.name.rpartition(" ")
        if group not in groups:
            groups[group] = _group_of_commands(commands, group)
        command.fill(groups[group].add_parser(name, help=command.summary))
    parser.set_defaults(program=parser)  # for the scripts that complete its commands
    return parser


def _group_of_commands(commands: _SubParsersAction[ArgumentParser], name: str) -> _SubParsersAction[ArgumentParser]:
    summary, description = GROUPS[name]
    parser = commands.add_parser(name, help=summary, description=description)
    return parser.add_subparsers(title="commands", metavar="COMMAND", dest="subcommand", required=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status."""
    parser = build_parser()
    options = Namespace(parser=parser)
    try:
        words = sys.argv[1:] if arguments is None else arguments
        options = parser.parse_args([f" {word}" if _NEGATIVE.match(word) else word for word in words])
        if options.command is None:
            parser.print_help(sys.stderr)
            return 2
        with warnings.catch_warnings():
            for category in (FallbackWarning, RedirectWarning):
                warnings.simplefilter("default", category)
            warnings.showwarning = _warn
            options.run(options)
        sys.stdout.flush()
    except SystemExit as stop:  # argparse ends like this
        return stop.code if isinstance(stop.code, int) else 0
    except KeyboardInterrupt as stop:
        status = stop.args[0] if stop.args else _INTERRUPTED  # another signal: output.ended_by_signals
        if arguments is None:  # as a program: the normal exit waits for running requests
            os._exit(status)
        return int(status)
    except BrokenPipeError:  # the reader of the pipe has closed it
        _silence_stdout()
        return _PIPE_CLOSED
    except FrazilError as error:
        error.hint = error.hint and with_options(error.hint, options.parser)
        return _fail(str(error))
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except MemoryError as error:
        return _fail(f"not enough memory: {error}. Hint: select less")
    return 0


def program() -> None:
    """The program `frazil`. Ctrl-C ends it at once: the interpreter waits for running requests, which take long if a server does not respond."""
    if 1 in _open_closed_streams():
        sys.exit(_fail("standard output is closed. Hint: redirect it, as in > /dev/null"))
    status = main()
    if status != _INTERRUPTED:
        sys.exit(status)
    with suppress(OSError):
        sys.stdout.flush()
    os._exit(status)


def _open_closed_streams() -> list[int]:
    """Opens those of the three standard streams that are closed as /dev/null, and returns their numbers. Otherwise a file of an array could get the number 2,
    and the messages of libraries would go into it."""
    closed: list[int] = []
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            closed.append(number)
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets the lowest number that is free
    if 1 in closed:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if 2 in closed:  # print() without it goes to standard output
        sys.stderr = os.fdopen(2, "w", closefd=False)
    return closed


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    print("frazil: warning: " + one_line(" ".join(str(message).split())), file=sys.stderr)


def _fail(message: str) -> int:
    sys.stdout.flush()
    print("frazil: " + one_line(" ".join(message.split())), file=sys.stderr)
    return 1


def _silence_stdout() -> None:
    """Discards the rest of its buffer, so that the interpreter does not report an error when it ends."""
    try:
        number = sys.stdout.fileno()
    except OSError:  # not a file, as in tests
        return
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, number)
    os.close(devnull)
