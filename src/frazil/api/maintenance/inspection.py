"""Repository.stats, show and usage, with checks of their arguments. The inspection itself is in repository/inspection/."""

from __future__ import annotations

from collections.abc import Callable

from frazil.api.lookup import lookup
from frazil.errors import FormatError, InvalidInputError, NotFoundError
from frazil.formats.ids import ID_CHARACTERS, decode_id
from frazil.metadata.paths import normalise
from frazil.repository.format import MAIN, RepositoryFormat
from frazil.repository.inspection.report import PathUsage, ShownCommit, ShownObject, Statistics
from frazil.repository.inspection.shown import show_commit, show_object
from frazil.repository.inspection.statistics import statistics
from frazil.repository.inspection.statistics import usage as usage_of

Progress = Callable[[str, int], object]


class Inspected:
    """The part of Repository that describes its content."""

    __slots__ = ()
    _files: RepositoryFormat

    def stats(self, *, largest: int = 10, progress: Callable[[str, int], object] | None = None) -> Statistics:
        """The content of the repository: bytes by kind, live and dead, by array and by commit, how chunks are packed, and the largest objects. Reads listings,
        snapshots and manifests, no chunk, and writes nothing. Unreadable files are among its `problems`.

        largest   number of the largest objects to list
        progress  called with the kind and number of objects done since the last call
        Raises NotFoundError, FormatError for a repository of another format, InvalidInputError, StoreError. See docs/maintenance.md."""
        return _stats(self._files, largest, progress)

    def show(self, name: str) -> ShownCommit | ShownObject:
        """One commit, by a branch, a tag, an id or the beginning of one: its message, time and parent, its changes and the files that it wrote. Or one object,
        by its whole id: a manifest, a chunk file or an attribute file, and the references to it from the tips of branches and tags. Raises NotFoundError,
        FormatError, StoreError."""
        return _show(self._files, name)

    def usage(
        self, name: str = MAIN, path: str = "", *, progress: Callable[[str, int], object] | None = None
    ) -> tuple[PathUsage, ...]:
        """The usage of each path at and below one, in a branch, tag or snapshot: chunks and their bytes, and the bytes that all histories keep of it. Removed
        arrays whose chunks are kept are listed, too. Groups have sums. Raises NotFoundError, FormatError, StoreError."""
        return _usage(self._files, name, path, progress)


def _stats(files: RepositoryFormat, largest: int, progress: Progress | None) -> Statistics:
    if isinstance(largest, bool) or not isinstance(largest, int) or largest < 0:
        raise InvalidInputError(f"largest is {largest!r}; it must be a whole number, 0 or more")
    return statistics(files.uncached(), largest, _checked(progress))


def _usage(files: RepositoryFormat, name: str, path: str, progress: Progress | None) -> tuple[PathUsage, ...]:
    fresh = files.uncached()
    below = "/" + normalise(path)
    return usage_of(fresh, lookup(fresh, name), below, _checked(progress))[0]


def _show(files: RepositoryFormat, name: str) -> ShownCommit | ShownObject:
    if not isinstance(name, str):
        raise InvalidInputError(f"{name!r} is not a name; it must be text")
    fresh = files.uncached()
    fresh.require()
    try:
        return show_commit(fresh, lookup(fresh, name))
    except NotFoundError as error:
        try:
            found = show_object(fresh, decode_id(name)) if len(name) == ID_CHARACTERS else None
        except FormatError as damaged:
            if damaged.key is None:  # not an id
                raise error from damaged
            raise
        if found is None:
            error.hint = error.hint or "an object is named by all 20 characters of its id"
            raise
        return found


def _checked(progress: Progress | None) -> Progress:
    if progress is not None and not callable(progress):
        raise InvalidInputError(f"progress is {progress!r}; it must be a function")
    return progress or _ignore_progress


def _ignore_progress(_what: str, _count: int) -> None:
    """Progress is not reported."""
