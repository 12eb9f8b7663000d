"""`frazil repo log`: the snapshots of a repository, as a list or as a graph. cli/graph.py draws graphs."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

import frazil
from frazil.api.lookup import with_metadata
from frazil.base.record import Record
from frazil.cli.arguments.locations import open_reference
from frazil.cli.command import Command, add_location, whole_number
from frazil.cli.graph import draw, in_order
from frazil.cli.output import print_json, print_text
from frazil.cli.refs import Point, points
from frazil.errors import DataError, MetadataError, NotFoundError, StoreError, one_line
from frazil.metadata.json_text import Json, as_json
from frazil.repository.format import MAIN

if TYPE_CHECKING:
    from frazil.api.lookup import Commit


class Names(Record):
    """The branches and tags that point to a snapshot."""

    branches: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    def __str__(self) -> str:
        names = [*self.branches, *(f"tag {tag}" for tag in self.tags)]
        return f"({', '.join(map(one_line, names))}) " if names else ""


def add_arguments(parser: ArgumentParser) -> None:
    add_location(parser, "the repository; with @REF, what led to this branch, tag or snapshot, else to main")
    number = whole_number("a number of snapshots", 1, 2**63 - 1)
    parser.add_argument("-n", "--number", metavar="N", type=number, help="show only the newest N")
    parser.add_argument(
        "--graph", action="store_true", help="draw the histories of all branches and tags, and of REF, as one graph"
    )


def run(options: Namespace) -> None:
    repo, reference = open_reference(options.location)
    start = MAIN if reference is None else reference
    try:
        tags, branches = repo.tags, repo.branches
    except StoreError as error:
        if options.graph:
            raise
        # as on a web server, and where a bucket denies listings
        print(f"frazil: warning: other branches and tags are not shown: {one_line(str(error))}", file=sys.stderr)
        tags, branches = [start], [MAIN, start]
    refs = {"tag": points(tags, repo.lookup_tag)}
    refs["branch"] = points(sorted(set(branches), key=lambda name: (name != MAIN, name)), repo.lookup_branch)
    names = _names(refs["branch"], refs["tag"])
    if not options.graph:
        _print_list(options, ((_file_id(repo, commit), commit) for commit in repo.history(start)), names)
        return
    tips = {f"{kind} {point.name}": point for kind, found in refs.items() for point in found}
    if reference is not None and (snapshot := repo.lookup(reference)) not in names:
        tips[reference] = Point(reference, snapshot)
    commits, faults = _every_commit(repo, [point.snapshot for point in tips.values() if point.snapshot is not None])
    parents = {key: _parent(commit, commits) for key, commit in commits.items()}
    order = in_order(parents, {key: commit.written_ns for key, commit in commits.items()})
    if options.json:
        _print_list(options, ((key, commits[key]) for key in order), names)
    else:
        _print_graph(order, parents, commits, names, options.number)
    sys.stdout.flush()
    damaged = {label: point.error or faults.get(point.snapshot or "") for label, point in tips.items()}
    for label, fault in damaged.items():
        if fault is not None:
            print(f"frazil: {one_line(f'the history of {label} cannot be read whole: {fault}')}", file=sys.stderr)
    if any(damaged.values()):
        raise SystemExit(1)


def _print_list(options: Namespace, found: Iterable[tuple[str, Commit]], names: Mapping[str, Names]) -> None:
    if options.json:
        commits_and_next = list(islice(found, None if options.number is None else options.number + 1))
        ids = {commit.id: key for key, commit in commits_and_next}  # includes the parent of the last commit shown
        shown = commits_and_next[: options.number]
        keys = [key for key, _ in shown]
        commits = with_metadata([commit for _, commit in shown])
        print_json(
            [_as_json(key, commit, names.get(key, Names()), ids) for key, commit in zip(keys, commits, strict=True)]
        )
        return
    for key, commit in islice(found, options.number):
        print_text(_commit_text(key, commit, names.get(key, Names())))


def _names(branches: Iterable[Point], tags: Iterable[Point]) -> dict[str, Names]:
    """The branches and tags of each snapshot; those that cannot be read are left out."""
    found: dict[str, Names] = {}
    for branch in branches:
        if branch.snapshot is not None:
            old = found.get(branch.snapshot, Names())
            found[branch.snapshot] = old._replace(branches=(*old.branches, branch.name))
    for tag in tags:
        if tag.snapshot is not None:
            old = found.get(tag.snapshot, Names())
            found[tag.snapshot] = old._replace(tags=(*old.tags, tag.name))
    return found


def _every_commit(repo: frazil.Repository, tips: Iterable[str]) -> tuple[dict[str, Commit], dict[str, str]]:
    """All ancestors of some snapshots, and these, by id; each history is followed up to the first known commit. And by id the
    errors of those whose histories cannot be read to the end."""
    found: dict[str, Commit] = {}
    faults: dict[str, str] = {}
    for tip in tips:
        own: list[str] = [tip]
        try:
            for commit in repo.history(tip):
                key = _file_id(repo, commit)
                own.append(key)
                if key in found:
                    break
                found[key] = commit
        except (DataError, NotFoundError) as error:
            faults |= dict.fromkeys(own, str(error))
        else:
            if own[-1] in faults:
                faults |= dict.fromkeys(own, faults[own[-1]])
    return found, faults


def _file_id(repo: frazil.Repository, commit: Commit) -> str:
    """The id that branches and tags have for a snapshot. It differs from its own id only for the first snapshot in a repository of the alpha's library."""
    if commit.parent is None:
        with suppress(NotFoundError, DataError):
            return repo.lookup(commit.id)
    return commit.id


def _parent(commit: Commit, commits: Mapping[str, Commit]) -> str | None:
    if commit.parent is None or commit.parent in commits:
        return commit.parent
    return next((key for key, other in commits.items() if other.id == commit.parent), None)


def _print_graph(
    order: list[str],
    parents: Mapping[str, str | None],
    commits: Mapping[str, Commit],
    names: Mapping[str, Names],
    most: int | None,
) -> None:
    for line in draw(order[:most], parents):
        text = (
            ""
            if line.commit is None
            else _commit_text(line.commit, commits[line.commit], names.get(line.commit, Names()))
        )
        print_text(f"{line.drawing} {text}".rstrip())


def _commit_text(key: str, commit: Commit, names: Names) -> str:
    first, *more = commit.message.splitlines() or [""]
    return f"{key}  {_time(commit.written_at)}  {names}{one_line(first)}{' ...' if more else ''}".rstrip()


def _time(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"


def _as_json(key: str, commit: Commit, names: Names, ids: Mapping[str, str]) -> Json:
    return {
        "id": key,
        "parent": None if commit.parent is None else ids.get(commit.parent, commit.parent),
        "message": commit.message,
        "written_at": commit.written_at.isoformat().replace("+00:00", "Z"),
        "metadata": {name: _plain(value) for name, value in commit.metadata.items()},
        "branches": list(names.branches),
        "tags": list(names.tags),
    }


def _plain(value: object) -> Json:
    """A value as JSON; values that only other programs write (bytes, NaN) as text."""
    try:
        return as_json(value, "metadata")
    except MetadataError:
        return str(value)


COMMAND = Command(
    "repo log",
    "the snapshots of a repository, newest first",
    "Prints a line for each snapshot: its id, the time when it was written (UTC), the branches and tags that "
    "point to it, and the first line of its message. With --json it also prints the whole message, the parent "
    "and the metadata of the commit. With --graph, branches and tags whose history is damaged are drawn as far "
    "as it can be read, and named on standard error; the exit status is then 1.",
    (
        ("frazil repo log sea.repo", "the history of main"),
        ("frazil repo log sea.repo@dev -n 10", "the newest ten snapshots of another branch"),
        ("frazil repo log sea.repo --graph", "all branches and tags, as a graph"),
        ("frazil repo log sea.repo@v1 --json", "the history of a tag, as JSON"),
    ),
    add_arguments,
    run,
)
