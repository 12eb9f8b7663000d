"""Repository.stats, show and usage, with checks of their arguments. The inspection itself is in repository/inspection/."""

from __future__ import annotations

from collections.abc import Callable

from frazil.api.lookup import lookup
from frazil.api.maintenance.verification import check_progress
from frazil.errors import FormatError, InvalidInputError, NotFoundError
from frazil.formats.ids import ID_CHARACTERS, decode_id
from frazil.metadata.paths import normalise
from frazil.repository.format import MAIN, RepositoryFormat
from frazil.repository.inspection.details import show_commit, show_object
from frazil.repository.inspection.report import PathUsage, ShownCommit, ShownObject, Statistics
from frazil.repository.inspection.statistics import statistics, usage


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
        if isinstance(largest, bool) or not isinstance(largest, int) or largest < 0:
            raise InvalidInputError(f"largest is {largest!r}; it must be a whole number, 0 or more")
        return statistics(self._files.uncached(), largest, check_progress(progress))

    def show(self, name: str) -> ShownCommit | ShownObject:
        """One commit, by a branch, a tag, an id or the beginning of one: its message, time and parent, its changes and the files that it wrote. Or one object,
        by its whole id: a manifest, a chunk file or an attribute file, and the references to it from the tips of branches and tags. Raises NotFoundError,
        FormatError, StoreError."""
        if not isinstance(name, str):
            raise InvalidInputError(f"{name!r} is not a name; it must be text")
        fresh = self._files.uncached()
        fresh.require()
        try:
            return show_commit(fresh, lookup(fresh, name), name)
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

    def usage(
        self, name: str = MAIN, path: str = "", *, progress: Callable[[str, int], object] | None = None
    ) -> tuple[PathUsage, ...]:
        """The usage of each path at and below one, in a branch, tag or snapshot: chunks and their bytes, and the bytes that all histories keep of it. Removed
        arrays whose chunks are kept are listed, too. Groups have sums. Raises NotFoundError, FormatError, StoreError."""
        fresh = self._files.uncached()
        below = "/" + normalise(path)
        return usage(fresh, lookup(fresh, name), below, check_progress(progress))[0]
