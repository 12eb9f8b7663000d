"""Inspection as users ask for it: Repository.stats, show and usage, their arguments checked. What is found out, and how, is in repository/inspection/."""

from __future__ import annotations

from collections.abc import Callable

from frazil.api.lookup import lookup
from frazil.errors import FormatError, InvalidInputError, NotFoundError
from frazil.formats.ids import ID_CHARACTERS, decode_id
from frazil.metadata.paths import normalise
from frazil.repository.format import RepositoryFormat
from frazil.repository.inspection.report import PathUsage, ShownCommit, ShownObject, Statistics
from frazil.repository.inspection.shown import show_commit, show_object
from frazil.repository.inspection.statistics import statistics
from frazil.repository.inspection.statistics import usage as usage_of

__all__ = ["show", "stats", "usage"]

Progress = Callable[[str, int], object]


def stats(files: RepositoryFormat, largest: int, progress: Progress | None) -> Statistics:
    """As Repository.stats."""
    if isinstance(largest, bool) or not isinstance(largest, int) or largest < 0:
        raise InvalidInputError(f"largest is {largest!r}; it must be a whole number, 0 or more")
    return statistics(files.anew(), largest, _checked(progress))


def usage(files: RepositoryFormat, name: str, path: str, progress: Progress | None) -> tuple[PathUsage, ...]:
    """As Repository.usage."""
    fresh = files.anew()
    below = "/" + normalise(path)
    return usage_of(fresh, lookup(fresh, name), below, _checked(progress))[0]


def show(files: RepositoryFormat, name: str) -> ShownCommit | ShownObject:
    """As Repository.show."""
    if not isinstance(name, str):
        raise InvalidInputError(f"{name!r} is no name; it must be text")
    fresh = files.anew()
    fresh.require()
    try:
        return show_commit(fresh, lookup(fresh, name))
    except NotFoundError as error:
        try:
            found = show_object(fresh, decode_id(name)) if len(name) == ID_CHARACTERS else None
        except FormatError as damaged:
            if damaged.key is None:  # no id at all
                raise error from damaged
            raise
        if found is None:
            error.hint = error.hint or "an object is named by all 20 characters of its id"
            raise
        return found


def _checked(progress: Progress | None) -> Progress:
    if progress is not None and not callable(progress):
        raise InvalidInputError(f"progress is {progress!r}; it must be a function")
    return progress or _nobody


def _nobody(_what: str, _count: int) -> None:
    """Nobody is told."""
