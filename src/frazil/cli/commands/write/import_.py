"""`frazil import`: files of other formats, into a repository or a plain store. integrations/files/ scans and imports them."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import PurePath
from typing import TYPE_CHECKING

from frazil.base.reports import counted, extents_text, human
from frazil.cli.arguments.layout import codecs, memory, named_extents, named_shards
from frazil.cli.command import Command, list_of_names
from frazil.cli.output import print_json, print_text
from frazil.cli.progress import Progress
from frazil.errors import one_line
from frazil.integrations.files import scanner
from frazil.integrations.files.imports import import_file, importer, layout, selection
from frazil.metadata.paths import check_lenient_name, join, normalise
from frazil.repository.virtual.locations import is_remote

if TYPE_CHECKING:
    from frazil.integrations.files.imports.import_file import FileImport
    from frazil.integrations.files.imports.importer import Imported
    from frazil.integrations.files.scanned import ScannedFile, Skipped


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="+",
        help="NetCDF, HDF5, NumPy, TIFF, GRIB, or references of kerchunk (JSON, or a folder of Parquet): a path, or a URL, as in s3://bucket/ocean.nc; each of several files becomes a group with its name",
    )
    parser.add_argument(
        "location",
        metavar="LOCATION",
        help="a repository, as in sea.repo (created if nothing is there) or sea.repo@BRANCH; or a plain store, existing, or new with a name that ends in .zarr",
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--virtual", dest="mode", action="store_const", const="virtual",
        help="store only references: chunks are read from FILE, which must stay where it is and must not change",
    )  # fmt: skip
    how.add_argument(
        "--adopt", dest="mode", action="store_const", const="adopt",
        help="copy FILE unchanged into the repository, and read its chunks from there; nothing is decoded",
    )  # fmt: skip
    how.add_argument(
        "--copy", dest="mode", action="store_const", const="copy",
        help="decode values and encode them again: the default, except for references of kerchunk, whose values are read from below --virtual-prefix",
    )  # fmt: skip
    parser.add_argument(
        "--virtual-prefix", metavar="URL", action="append", default=[],
        help="allow values to be read below this URL, as in file:///data/ or s3://bucket/, where FILE refers to them; may be repeated",
    )  # fmt: skip
    parser.add_argument("--path", metavar="GROUP", default="", help="the group to import into (default: the root)")
    parser.add_argument(
        "--variables", metavar="NAMES", type=list_of_names,
        help="import only these variables, as in level1/temp,salt or 'level1/*'",
    )  # fmt: skip
    parser.add_argument(
        "--skip", metavar="VARIABLE", action="append", default=[],
        help="leave out a variable, as in level1/temp or 'names*'; may be repeated",
    )  # fmt: skip
    _add_layout(parser)
    parser.add_argument(
        "--time-limit", type=_seconds, default=60.0, metavar="SECONDS",
        help="how long the HDF5 library may take for one dataset, eccodes for one field, or tifffile for the structure of a file (default: 60); some damaged files block them forever",
    )  # fmt: skip
    parser.add_argument(
        "-m", "--message", metavar="TEXT", help="the message of the commit (default: the names of the files)"
    )


def _add_layout(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--chunks", metavar="N,N,...", type=named_extents, default="auto",
        help="chunks of the variables with that many dimensions, or by name, as in time=12,lat=64; same: as in FILE (default: auto, about 1 MiB)",
    )  # fmt: skip
    parser.add_argument(
        "--shards", metavar="N,N,...", type=named_shards, default="auto",
        help="shards, as for --chunks (but not same), or none (default: auto, 32 to 64 MiB)",
    )  # fmt: skip
    parser.add_argument(
        "--codecs", metavar="NAMES", type=codecs, default="auto",
        help="names, as in zstd; none; same: as in FILE; or a JSON list of objects (default: auto)",
    )  # fmt: skip
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        type=memory,
        default=2**28,
        help="bytes of memory that the import may hold, as in 512MiB (default: 256MiB)",
    )
    parser.add_argument("--explain", action="store_true", help="print which chunks and shards were chosen, and why")
    parser.add_argument("--dry-run", action="store_true", help="print what would be done, and write nothing")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


def run(options: Namespace) -> None:
    groups = _groups(options)
    remote = next((file for file in options.file if is_remote(file)), None)
    if options.mode == "adopt" and remote:
        options.refuse(f"{remote} is not on this machine: copy it here first to adopt it, or import it with --virtual")
    prefixes = {**dict.fromkeys(options.virtual_prefix), **importer.remote_prefixes(options.file)}
    scans = [scanner.scan_file(file, virtual_prefixes=prefixes, time_limit=options.time_limit) for file in options.file]
    files = _files(options, groups, scans)
    modes = {importer.mode_of(scanned, options.mode) for scanned in scans}
    if len(modes) > 1:
        options.refuse("references of kerchunk are imported with --virtual, and other files may be too")
    options.mode = modes.pop()
    for opened in files:
        importer.check_mode(opened.scanned, opened.file, options.mode, options.virtual_prefix)
    how = layout.LayoutOptions(options.chunks, options.shards, options.codecs)
    layout.check_dimensions([array for opened in files for array in opened.scanned.arrays], how)
    runtime = importer.IMPORTS._replace(bytes_in_flight=options.memory)
    plans = [importer.plan_import(opened.scanned, options.mode, how, runtime) for opened in files]
    files = [opened._replace(planned=plan) for opened, plan in zip(files, plans, strict=True)]
    for opened in files:
        for part in opened.scanned.skipped:
            if part.attribute is not None or not selection.is_left_out(part.path, options.skip, options.variables):
                print(f"frazil: skipped: {one_line(_skipped(opened.file, part))}", file=sys.stderr)
    if options.explain or options.dry_run:
        _explain(options, files, plans)
    if options.dry_run:
        return
    total = sum(importer.import_size(opened.scanned, options.mode) for opened in files)
    with Progress("importing", total) as report:
        done = import_file.import_files(
            files, options.location, options.mode, how, options.message, report, prefixes or None, runtime
        )
    _print_imported(options, files, done)


def _explain(options: Namespace, files: list[FileImport], plans: list[Imported]) -> None:
    """Prints what will be written, with the reason for chunks and shards; to standard error if standard output has a result."""
    stream = sys.stdout if options.dry_run and not options.json else sys.stderr
    for file, plan in zip(files, plans, strict=True):
        print(
            one_line(f"{file.file}: {file.scanned.kind}, {counted(len(plan.arrays), 'array')}, {human(plan.nbytes)}"),
            file=stream,
        )
        for array, chosen in zip(file.scanned.arrays, plan.layouts, strict=False):
            print(
                one_line(f"  {array.path} ({extents_text(array.shape)} {array.dtype.name}): {chosen.reason}"),
                file=stream,
            )
    if options.dry_run and options.json:
        print_json(
            {
                "snapshot": None,
                "branch": None,
                "arrays": [path for plan in plans for path in plan.arrays],
                "skipped": [],
            }
        )


def _print_imported(options: Namespace, files: list[FileImport], done: Imported) -> None:
    if options.json:
        print_json({
            "snapshot": done.snapshot, "branch": done.branch, "arrays": list(done.arrays),
            "skipped": [
                {"file": file.file, "path": part.path, "attribute": part.attribute, "reason": part.reason}
                for file in files for part in file.scanned.skipped
            ],
        })  # fmt: skip
        return
    count = counted(len(done.arrays), "array")
    print_text(count if done.snapshot is None else f"{done.snapshot}  {count}")


def _skipped(file: str, part: Skipped) -> str:
    attribute = "" if part.attribute is None else f"attribute {part.attribute}: "
    return f"{file}: /{part.path}: {attribute}{part.reason}"


def _groups(options: Namespace) -> list[str]:
    """The group of each file: the given one, or one below it for each of several files."""
    path = normalise(options.path, check_lenient_name)
    if len(options.file) == 1:
        return [path]
    names = [PurePath(file).stem for file in options.file]
    if len(set(names)) < len(names):
        options.refuse("each file becomes a group with its name: two files have the same name")
    return [join(path, name) for name in names]


def _files(options: Namespace, groups: list[str], scans: list[ScannedFile]) -> list[FileImport]:
    """The files with the variables to import. Each name of --skip and --variables must exist in at least one file. Raises InvalidInputError for a variable that
    cannot be imported."""
    for flag, names in (("--skip", options.skip), ("--variables", options.variables or ())):
        for name in names:
            if not any(selection.has_variable(scanned, name) for scanned in scans):
                options.refuse(f"{flag} {name}: no such variable is in {', '.join(options.file)}")
    files = []
    for file, group, scanned in zip(options.file, groups, scans, strict=True):
        skip = [name for name in options.skip if selection.has_variable(scanned, name)]
        variables = options.variables and [name for name in options.variables if selection.has_variable(scanned, name)]
        files.append(import_file.FileImport(file, group, selection.select_variables(scanned, skip, file, variables)))
    return files


COMMAND = Command(
    "import",
    "files of NetCDF, HDF5, NumPy, TIFF and GRIB, into a repository or a plain store",
    "Imports the arrays of files into a repository, with groups, attributes and dimension names, as one "
    "commit, and prints the id of its snapshot. The destination may also be a plain store; there, the same "
    "command continues an interrupted import. Values are copied and encoded again, in chunks that suit both "
    "maps and time series. With --adopt the file is copied unchanged into the repository; with --virtual the "
    "repository only refers to it. If a variable cannot be imported, that is an error and nothing is written, "
    "unless --skip names the variable. Standard error lists what is left out. HDF5 and NetCDF4 need h5py, TIFF "
    "needs tifffile, GRIB needs cfgrib. References of kerchunk become virtual chunks.",
    (
        ("frazil import ocean.nc new.repo", "all arrays of a file, copied into a new repository"),
        ("frazil import ocean.nc sea.repo@dev --path level2 -m 'the second level'", "into a group, on a branch"),
        ("frazil import ocean.nc new.zarr --explain", "into a plain store; with the reasons for chunks and shards"),
        (
            "frazil import ocean.nc new5.repo --variables level1/temp --chunks t=1,y=20",
            "one variable, in chunks of your choice",
        ),
        ("frazil import ocean.nc new4.repo --skip 'level1/*'", "leave out some variables"),
        ("frazil import ocean.nc new2.repo --virtual", "references; `frazil get` reads them with --virtual-prefix"),
        (
            "frazil import s3://bucket/ocean.nc far.repo --virtual",
            "the same, of a file in a bucket, of which little is read",
        ),
        ("frazil import ocean.nc new3.repo --adopt --json", "a copy of the file in the repository; the report as JSON"),
    ),
    add_arguments,
    run,
)
