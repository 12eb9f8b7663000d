"""`frazil serve`: a folder, a store or a repository as plain Zarr over HTTP."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import Final, TypedDict

from frazil.api.ref_locations import RefLocation, at_main
from frazil.cli.arguments.locations import add_virtual_prefix, open_repository, open_session, repository_at
from frazil.cli.command import Command, add_location, whole_number
from frazil.cli.output import print_text
from frazil.errors import InvalidInputError, NotFoundError
from frazil.operations.serve import server

PORT: Final = 8000


class _Options(TypedDict):
    host: str
    port: int
    host_names: tuple[str, ...]
    cors: tuple[str, ...]


def add_arguments(parser: ArgumentParser) -> None:
    add_location(parser, "a folder, a URL, or a repository as in sea.repo@v1; what is below it is served")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="the address to listen on (default: only this machine can read); 0.0.0.0 is every address of this machine",
    )
    parser.add_argument(
        "--port",
        type=whole_number("a port: one is a number up to 65535, and 0 is any free one", 0, 2**16 - 1),
        default=PORT,
        metavar="N",
        help=f"the port (default: {PORT}); 0 is any free one",
    )
    parser.add_argument(
        "--cors",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="allow web pages of this origin to read, as in https://viewer.example.org; may be repeated",
    )
    parser.add_argument(
        "--host-name",
        action="append",
        default=[],
        metavar="NAME",
        help="another host name of this server, which requests may use; may be repeated",
    )
    parser.add_argument(
        "--follow",
        action="store_true",
        help="serve new commits of the branch, too (at most a second late); by default the state at the start is served",
    )
    add_virtual_prefix(parser)


def run(options: Namespace) -> None:
    with _server(options) as server:
        try:
            print_text(server.url)
            sys.stdout.flush()
            server.wait()
        except KeyboardInterrupt:  # the usual end
            pass


def _server(options: Namespace) -> server.Server:
    named = repository_at(options.location)
    if options.follow:
        return _following(named, options)
    if named is None:
        try:
            return server.serve(options.location, **_options(options))
        except NotFoundError:
            named = at_main(options.location)
            if named is None:
                raise
    store = open_session(named, options.virtual_prefix).store
    return server.serve(store, named.path, **_options(options))


def _options(options: Namespace) -> _Options:
    return {
        "host": options.host,
        "port": options.port,
        "host_names": tuple(options.host_name),
        "cors": tuple(options.cors),
    }


def _following(named: RefLocation | None, options: Namespace) -> server.Server:
    """The server of a branch that moves. Raises InvalidInputError where the location is not a branch."""
    if named is None:
        raise InvalidInputError(
            "only a branch of a repository can be followed",
            path=options.location,
            hint="leave --follow out: a folder is served as it is at each request",
        )
    repo = open_repository(named.repository, options.virtual_prefix)
    if named.ref not in repo.branches:
        raise InvalidInputError(
            f"{named.ref!r} is not a branch; only branches move",
            path=named.repository,
            hint="leave --follow out, or name a branch",
        )
    return server.follow(repo, named.ref, named.path, **_options(options))


COMMAND = Command(
    "serve",
    "serves an array, a group or a repository as plain Zarr over HTTP",
    "Serves a hierarchy over HTTP, for reading only, to programs such as xarray, zarr-python and zarrita.js. "
    "Ranges and ETags are supported. Only metadata documents and chunks are served, no other file of a folder. "
    "Web pages of other servers can read it only if --cors allows it. Keys cannot be listed over HTTP, so the "
    "document of each group contains copies of the documents below it (consolidated metadata), at most five "
    "seconds old. Prints the address, and ends at Ctrl-C. A folder is served as it is at each request; a "
    "repository as it was at the start, or with --follow as its branch is.",
    (
        ("frazil serve ocean.zarr", "at http://127.0.0.1:8000/, for programs on this machine"),
        ("frazil serve ocean.zarr --cors https://viewer.example.org", "a viewer in a browser may read it, too"),
        ("frazil serve sea.repo@v1 --port 0", "a repository as it was at a tag, at any free port"),
        ("frazil serve sea.repo@dev --follow", "a branch, with new commits"),
    ),
    add_arguments,
    run,
    prints_json=False,
)
