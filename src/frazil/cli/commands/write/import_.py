"""`frazil import`: files of other formats, into a repository. How they are scanned and brought in is in integrations/."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING

import frazil
from frazil.api.references import has_nothing, split_reference
from frazil.cli.command import Command
from frazil.cli.locations import MAIN, open_repository
from frazil.cli.output import add_json, say, say_json
from frazil.cli.progress import Progress
from frazil.errors import AlreadyExistsError, InvalidInputError, one_line
from frazil.late import LateModule
from frazil.record import Record
from frazil.repository.virtual.locations import is_remote
from frazil.stores.locations import Location, resolve
from frazil.stores.repository_places import outer_repository

if TYPE_CHECKING:
    from frazil.integrations.files import importer, scanner
    from frazil.integrations.files.importer import How
    from frazil.integrations.files.scanned import ScannedFile, Skipped
else:
    importer = LateModule("frazil.integrations.files.importer")
    scanner = LateModule("frazil.integrations.files.scanner")


class Source(Record):
    """A file that was scanned, and the group that it goes to."""

    file: str
    group: str
    scanned: ScannedFile


class Missed(Record):
    """What was left out, and of which file."""

    file: str
    skipped: Skipped

    def __str__(self) -> str:
        attribute = "" if self.skipped.attribute is None else f"attribute {self.skipped.attribute}: "
        return f"{self.file}: /{self.skipped.path}: {attribute}{self.skipped.reason}"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="+",
        help="NetCDF4, HDF5 or NetCDF classic: a path, or a URL, as in s3://bucket/ocean.nc; of several each becomes a group of its name",
    )
    parser.add_argument(
        "location",
        metavar="LOCATION",
        help="the repository, as in sea.repo, or sea.repo@BRANCH; made where nothing is there",
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--virtual", dest="how", action="store_const", const="virtual", default="copy",
        help="store references alone: chunks are read from FILE, which stays where it is and must not change",
    )  # fmt: skip
    how.add_argument(
        "--adopt", dest="how", action="store_const", const="adopt",
        help="copy FILE as it is into the repository: its chunks are read from there, and nothing is decoded",
    )  # fmt: skip
    parser.add_argument(
        "--path", metavar="GROUP", default="", help="the group that it goes to; the root, where it is left out"
    )
    parser.add_argument(
        "--skip", metavar="VARIABLE", action="append", default=[],
        help="leave out a variable, as in level1/temp or 'names*', whether it could be imported or not; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--time-limit", type=_seconds, default=60.0, metavar="SECONDS",
        help="how long the HDF5 library may take for one dataset, 60 where it is left out: of some damaged files it never comes back",
    )  # fmt: skip
    parser.add_argument(
        "-m", "--message", metavar="TEXT", help="of the commit; it names the files, where it is left out"
    )
    add_json(parser)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return seconds


def run(options: Namespace) -> None:
    groups = _groups(options)
    if options.how == "adopt" and (far := next((file for file in options.file if is_remote(file)), None)):
        options.refuse(f"{far} is not on this machine: copy it here first to adopt it, or import it with --virtual")
    far = importer.far_places(options.file)
    scans = [scanner.scan_file(file, virtual_prefixes=far, time_limit=options.time_limit) for file in options.file]
    sources = _sources(options, groups, scans)
    missed: list[Missed] = []
    arrays: list[str] = []
    snapshot = branch = None
    if any(source.scanned.arrays for source in sources):
        prefixes = {importer.folder_prefix(source.file): None for source in sources if not is_remote(source.file)}
        session = _open(options, {**prefixes, **far})
        branch = session.branch
        try:
            arrays = _import(session, sources, options.how, missed, far)
            if arrays:
                message = options.message or f"Import {', '.join(PurePath(source.file).name for source in sources)}"
                snapshot = session.commit(message, rebase="disjoint")
        finally:
            if session.has_changes:
                session.discard()
    else:
        missed += [Missed(source.file, part) for source in sources for part in source.scanned.skipped]
    for part in missed:
        if part.skipped.attribute is None and importer.is_named(part.skipped.path, options.skip):
            continue  # as was asked for
        print(f"frazil: skipped: {one_line(str(part))}", file=sys.stderr)
    if snapshot is None:
        raise InvalidInputError("nothing could be imported")
    if options.json:
        say_json({
            "snapshot": snapshot, "branch": branch, "arrays": list(arrays),
            "skipped": [
                {"file": part.file, "path": part.skipped.path,
                 "attribute": part.skipped.attribute, "reason": part.skipped.reason}
                for part in missed
            ],
        })  # fmt: skip
    else:
        say(f"{snapshot}  {len(arrays)} array{'s' * (len(arrays) != 1)}")


def _groups(options: Namespace) -> list[str]:
    """The group of each file: that which was asked for, and of several files one each below it."""
    if len(options.file) == 1:
        return [options.path]
    names = [PurePath(file).stem for file in options.file]
    if len(set(names)) < len(names):
        options.refuse("each file becomes a group of its name: two have the same one")
    return [f"{options.path.rstrip('/')}/{name}" for name in names]


def _sources(options: Namespace, groups: list[str], scans: list[ScannedFile]) -> list[Source]:
    """The files without the variables of --skip, each of which at least one file must have. Raises InvalidInputError for a variable that cannot be imported."""
    for name in options.skip:
        if not any(importer.has_variable(scanned, name) for scanned in scans):
            options.refuse(f"--skip {name}: no such variable is in {', '.join(options.file)}")
    sources = []
    for file, group, scanned in zip(options.file, groups, scans, strict=True):
        skip = [name for name in options.skip if importer.has_variable(scanned, name)]
        sources.append(Source(file, group, importer.without_skipped(scanned, skip, file)))
    return sources


def _open(options: Namespace, prefixes: Mapping[str, Location | None]) -> frazil.Session:
    """A session on the branch, in a new repository where nothing is there."""
    named = split_reference(options.location)
    if named is not None:
        if named.path:
            options.refuse(f"give the group with --path {named.path}")
        return open_repository(named.repository, prefixes).writable_session(named.reference)
    if "@" not in options.location and has_nothing(options.location):
        outer = outer_repository(*resolve(options.location))
        if outer is not None:
            options.refuse(f"{outer.place} is a repository: import to that, with --path {outer.inside}")
        return frazil.Repository.create(options.location, virtual_prefixes=prefixes).writable_session(MAIN)
    return open_repository(options.location, prefixes).writable_session(MAIN)


def _import(
    session: frazil.Session, sources: list[Source], how: How, missed: list[Missed], far: Mapping[str, Location]
) -> list[str]:
    """The paths of the arrays that were made; what was skipped is added to `missed`."""
    arrays: list[str] = []
    with Progress("importing", sum(importer.import_size(source.scanned, how) for source in sources)) as report:
        for file, group, scanned in sources:
            try:
                done = importer.import_scanned(
                    session, scanned, file, path=group, how=how, report=report, virtual_prefixes=far
                )
            except AlreadyExistsError as error:
                error.hint = "choose another group with --path"
                raise
            arrays += done.arrays
            missed += [Missed(file, part) for part in done.skipped]
    return arrays


COMMAND = Command(
    "import",
    "files of NetCDF and HDF5, into a repository",
    "Brings the arrays of files into a repository, with groups, attributes and the names of dimensions, in one commit, and prints the id of its\n"
    "snapshot. Values are copied and encoded anew; --adopt copies FILE as it is, and --virtual only refers to it. A variable that cannot be imported is an\n"
    "error, and nothing is written, unless --skip names it. Standard error lists what is left out. HDF5 and NetCDF4 need h5py.",
    (
        ("frazil import ocean.nc new.repo", "all arrays of a file, copied into a new repository"),
        ("frazil import ocean.nc sea.repo@dev --path level2 -m 'the second level'", "into a group, on a branch"),
        ("frazil import ocean.nc new4.repo --skip 'level1/*'", "all but some variables"),
        ("frazil import ocean.nc new2.repo --virtual", "references; `frazil get` reads them with --virtual-prefix"),
        (
            "frazil import s3://bucket/ocean.nc far.repo --virtual",
            "the same, of a file in a bucket, of which little is read",
        ),
        ("frazil import ocean.nc new3.repo --adopt --json", "the file as it is, within the repository; for programs"),
    ),
    add_arguments,
    run,
)
