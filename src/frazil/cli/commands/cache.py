"""`frazil cache`: shows the content of the folder of a cache on disk, and trims it."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from frazil.array.info import table
from frazil.base.reports import counted, human
from frazil.cli.command import Command, size
from frazil.cli.output import print_result
from frazil.stores.caches import cache_folder

if TYPE_CHECKING:
    from frazil.metadata.json_text import Json


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER", help="the folder of the cache (the argument cache= in Python)")
    change = parser.add_mutually_exclusive_group()
    change.add_argument(
        "--trim",
        metavar="SIZE",
        type=size,
        help="remove what was used least recently, until at most SIZE is left: bytes, or as in 500MB or 10GiB",
    )
    change.add_argument("--clear", action="store_true", help="remove everything; the folder remains a cache")


def run(options: Namespace) -> None:
    folder = cache_folder.open_folder(options.folder, make=False)
    before = folder.usage()
    most = 0 if options.clear else options.trim
    if most is None:
        report = _as_json(folder.path, before)
    else:
        after = folder.trim(most)
        report = _as_json(folder.path, after)
        report |= {"removed_files": before.files - after.files, "removed_nbytes": before.nbytes - after.nbytes}
    print_result(options, report, table(_lines(report)))


def _as_json(path: str, usage: cache_folder.Usage) -> dict[str, Json]:
    return {
        "folder": path,
        "files": usage.files,
        "nbytes": usage.nbytes,
        "oldest_use": _time(usage.oldest),
        "newest_use": _time(usage.newest),
    }


def _time(time: int | None) -> str | None:
    return None if time is None else f"{datetime.fromtimestamp(time // 10**9, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _lines(report: dict[str, Json]) -> list[tuple[str, str]]:
    lines = [("folder", str(report["folder"])), ("kept", _counted(report["files"], report["nbytes"]))]
    if "removed_files" in report:
        lines.insert(1, ("removed", _counted(report["removed_files"], report["removed_nbytes"])))
    if report["oldest_use"] is not None:
        lines += [("oldest use", str(report["oldest_use"])), ("newest use", str(report["newest_use"]))]
    return lines


def _counted(files: Json, nbytes: Json) -> str:
    assert isinstance(files, int)
    assert isinstance(nbytes, int)
    return f"{human(nbytes)} in {counted(files, 'range')}"


COMMAND = Command(
    "cache",
    "shows, trims or empties a cache on disk",
    "Shows how many bytes a cache folder holds, and when it was last used. A folder becomes a cache when "
    'something is opened with it, as in frazil.open_array("s3://bucket/sea.zarr", cache="folder"). A cache '
    "stays below its limit. It may be removed at any time, even while programs use it: they read the data "
    "again.",
    (
        ("frazil cache sea.cache", "how much the cache holds, and how old it is"),
        ("frazil cache sea.cache --trim 10GB", "keep the 10 GB that were used most recently"),
        ("frazil cache sea.cache --clear", "remove everything"),
        ("frazil cache sea.cache --json", "the same as JSON"),
    ),
    add_arguments,
    run,
)
