"""The invariants at the end of a round, when all processes have ended: the repository opens, every acknowledged commit, branch and tag is there and nothing is
torn; and after two collections no garbage is left."""

from __future__ import annotations

import os
import traceback
from collections import defaultdict
from datetime import timedelta
from pathlib import Path

import frazil
from frazil.testing.simulation.collectors import dead_objects
from tests.soak import content, machine
from tests.soak.journal import Answers, entries
from tests.soak.machine import Clock, Place
from tests.soak.plan import HOUR, WRITERS, Round

_WAIT = timedelta(hours=1)
_UNFINISHED = (".__lock", "~", ".copy-")  # suffixes or prefixes of names of files that killed writers leave


def main(plan: Round, place: Place, epoch: int) -> None:
    """All checks, in a separate process. Failures go into a file `failed-check`."""
    folder = Path(place.notes)
    try:
        clock = Clock(epoch)
        machine.install(place, clock, 0)
        repo = frazil.Repository.open(place.location, durable=plan.durable)
        _check_commits(repo, folder)
        _check_names(repo, folder)
        _check_sound(repo)
        # the first removes files that killed clients left next to the objects
        for hours in (8 * 24, 2, 2):
            clock.let_pass(hours * HOUR)
            repo.garbage_collect(wait=_WAIT)
        repo = frazil.Repository.open(place.location, durable=plan.durable)
        _check_collected(repo, place)
        _check_commits(repo, folder)
        _check_names(repo, folder)
        _check_sound(repo)
        with repo.transaction(message="it goes on") as root:
            root.attrs["end"] = True
    except BaseException:
        (folder / "failed-check").write_text(traceback.format_exc())


def _check_commits(repo: frazil.Repository, folder: Path) -> None:
    found = content.committed(repo.readonly_session())
    for writer in range(WRITERS):
        answers, there = Answers(entries(folder, f"writer-{writer}")), found.get(writer, [])
        assert there == sorted(set(there)), f"writer {writer}: its commits are {there}"
        lost = answers.numbers("committed") - set(there)
        assert not lost, f"writer {writer}: acknowledged commits are lost: {sorted(lost)}"
        more = set(there) - answers.numbers("committed") - answers.numbers("unknown")
        assert not more, f"writer {writer}: refused commits are there: {sorted(more)}"


def _check_names(repo: frazil.Repository, folder: Path) -> None:
    """Branches and tags are at the snapshots that were reported to their creators."""
    may: dict[tuple[str, str], set[str | None]] = defaultdict(lambda: {None})
    for name in sorted({path.name.partition(".")[0] for path in folder.glob("names-*.journal")}):
        for entry in entries(folder, name):
            if "known" in entry:
                continue
            if entry["told"] == "done":
                may[entry["kind"], entry["name"]] = {entry["to"]}
            elif entry["told"] == "unknown":
                may[entry["kind"], entry["name"]].add(entry["to"])
    there = {("branch", name): repo.lookup_branch(name) for name in repo.branches}
    there |= {("tag", name): repo.lookup_tag(name) for name in repo.tags}
    for key, candidates in may.items():
        at = there.get(key)
        assert at in candidates or ("?" in candidates and at), f"{key} is at {at}, not one of {candidates}"


def _check_sound(repo: frazil.Repository) -> None:
    """All objects that a branch or a tag refers to exist, and each ref shows whole commits."""
    problems = repo.verify(decode=True).problems
    assert not problems, f"verify says: {problems[:5]}"
    sessions = [repo.readonly_session(name) for name in repo.branches]
    sessions += [repo.readonly_session(tag=name) for name in repo.tags]
    for session in sessions:
        content.check(session)


def _check_collected(repo: frazil.Repository, place: Place) -> None:
    store, prefix = repo._files.store, repo._files.prefix
    keys = [key[len(prefix) :] for key in store.list_prefix(prefix)]
    dead = dead_objects(repo, keys)
    assert not dead, f"dead after two collections: {dead[:5]} and so on, {len(dead)}"
    notes = [key for key in keys if key.startswith(("gc/condemned/", "gc/runs/", "gc/pins/"))]
    assert not notes, f"left after two collections: {notes}"
    if "://" not in place.location:
        names = [name for _, _, found in os.walk(place.files) for name in found]
        left = [name for name in names if name.endswith(_UNFINISHED[0]) or name.startswith(_UNFINISHED[1:])]
        assert not left, f"left by writers: {left[:5]}"
