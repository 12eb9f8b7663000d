"""`frazil repo verify`: whether everything that branches and tags lead to exists."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from frazil.cli.arguments.locations import add_repository, add_virtual_prefix, open_repository
from frazil.cli.command import Command
from frazil.cli.output import print_checked
from frazil.cli.progress import Steps


def add_arguments(parser: ArgumentParser) -> None:
    add_repository(parser)
    parser.add_argument(
        "--decode", action="store_true", help="decode every chunk of branches and tags, virtual ones too, on all cores"
    )
    parser.add_argument(
        "--no-history",
        action="store_true",
        help="check only the snapshots that branches and tags point to, not those before them",
    )
    parser.add_argument(
        "--digests",
        action="store_true",
        help="compare every chunk file with its digest, if the repository has digests",
    )
    parser.add_argument(
        "--virtual", action="store_true", help="also check the state of every file that virtual chunks refer to"
    )
    parser.add_argument("--orphans", action="store_true", help="also print the names of objects that nothing refers to")
    add_virtual_prefix(parser)


def run(options: Namespace) -> None:
    repo = open_repository(options.location, options.virtual_prefix)
    with Steps() as report:
        found = repo.verify(
            decode=options.decode,
            digests=options.digests,
            virtual=options.virtual,
            history=not options.no_history,
            progress=report,
        )
    orphans = [f"{kind}/{name}" for kind, names in found.orphan_ids.items() for name in names]
    document = found.to_json()
    if options.orphans:
        document["orphan_names"] = list(orphans)
    text = "\n".join([*(orphans if options.orphans else ()), str(found)])
    print_checked(options, document, text, ok=found.ok)


COMMAND = Command(
    "repo verify",
    "checks that everything that branches and tags refer to is there",
    "Reads every branch, tag, snapshot, manifest and attribute file, and looks up every chunk reference in the "
    "listing of the chunk files. With --decode it also decodes every chunk of the branches and tags. Prints a "
    "line for each problem, then what was checked. Nothing is written. The exit status is 1 if there are "
    "problems.",
    (
        ("frazil repo verify sea.repo", "files and references"),
        ("frazil repo verify sea.repo --decode", "every chunk of branches and tags, too"),
        ("frazil repo verify sea.repo --json", 'as JSON: problems as objects, and "ok"'),
    ),
    add_arguments,
    run,
)
