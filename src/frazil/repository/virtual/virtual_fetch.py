"""Virtual chunks: chunks in files outside of the repository. Finding out where they really lie, reading them, and noticing that one is gone or has changed: never the
fill value, never bytes of another file.

What a user allows is made in prefixes.py; what a location is, locations.py says; what is kept of a file's state, file_checks.py; columns of new
references are made in reference_columns.py."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from frazil import _kernel
from frazil.errors import DataError, InvalidInputError, StoreError
from frazil.record import Record
from frazil.repository.virtual.file_checks import FileCheck, plain_location, what_differs
from frazil.repository.virtual.locations import parse_location
from frazil.repository.virtual.prefixes import Prefixes, VirtualPlace, make_places
from frazil.runtime import DEFAULT
from frazil.stores.array_storage.chunk_storage import fetch_spans
from frazil.stores.fetched.composed_values import joined_sources
from frazil.stores.store import NO_SPANS, Store
from frazil.stores.values import ABSENT_KEY, FOLDER, FOUND, MISSING, STALE, Columns, Fetched, Sources, Version

__all__ = ["NO_PLACES", "VirtualPlaces", "open_places"]

_OPEN_AT_ONCE: Final = 256  # files of one fetch: a process may often have 1024 open
_STORES_AT_ONCE: Final = 8
_THREADS: Final = 4  # that read into memory: most of the time they wait


def open_places(prefixes: Prefixes | None, requests_in_flight: int = DEFAULT.requests_in_flight) -> VirtualPlaces:
    """What a user allows at opening (`virtual_prefixes=`): prefixes of URLs, each ending in "/", of files under their own names; or a mapping from prefixes to where
    those files lie: a folder, a URL, a Store with credentials of its own; None for under their own names. Nothing is opened yet.

    Raises InvalidInputError for prefixes that are none, and for places that none can be mapped to."""
    return NO_PLACES if prefixes is None else VirtualPlaces(make_places(prefixes, requests_in_flight))


class VirtualPlaces(Record):
    """All that a user allows, the longest prefix first. Safe to use from many threads; pickles by locations."""

    places: tuple[VirtualPlace, ...]

    @property
    def direct(self) -> bool:
        """Whether all files are at hand (Capabilities.direct), as none of a URL that is still to be opened are."""
        return all(isinstance(place.source, Store) and place.source.capabilities.direct for place in self.places)

    @property
    def elsewhere(self) -> tuple[object, ...]:
        """What files lie otherwise than where their names say: prefixes with the stores, and what keys begin with there."""
        return tuple([(place.prefix, place.source, place.keys) for place in self.places if place.address])

    def find(self, location: str) -> tuple[VirtualPlace, str]:
        """The place of a location, and its key there. Raises InvalidInputError for one that is not allowed, or is none."""
        parsed = parse_location(location)
        for place in self.places:
            if parsed.is_below(place.below):
                return place, place.key(parsed)
        if parsed.folder:
            raise InvalidInputError("the location of a virtual chunk is a file, not a folder", key=location)
        raise InvalidInputError(
            "the location of a virtual chunk lies outside of the prefixes that are allowed",
            key=location,
            hint=f"if you trust it, open the repository with virtual_prefixes=[{location.rpartition('/')[0] + '/'!r}]; on the command line, --virtual-prefix",
        )

    def look_up(self, locations: Sequence[str]) -> dict[str, FileCheck]:
        """The state of each file that is there. Raises InvalidInputError as find does, StoreError when a store fails."""
        checks: dict[str, FileCheck] = {}
        locations = list(dict.fromkeys(locations))
        for part in _parts([self.find(location) for location in locations], None):
            try:
                fetched = part.store.fetch(part.keys, NO_SPANS)
            except StoreError as error:
                raise _unreadable(part, locations, error) from error
            for i, name in enumerate(part.names.tolist()):
                if fetched.status[i] == FOUND:
                    checks[locations[name]] = part.seen(fetched, i)
        return checks

    def fetch(
        self,
        locations: Sequence[str],
        spans: Columns,
        *,
        checks: Sequence[FileCheck | None] | None = None,
        expect: Sequence[Version | None] | None = None,
        held: Fetched | None = None,
    ) -> Fetched:
        """Byte ranges of files, as Store.fetch with locations in place of names, which may repeat. Every status is FOUND, or STALE where `expect` says so. Files
        are opened now: the kernel, left to open them when it reads, would take a missing one for the fill value.

        checks  the state that each must have; None: any
        Raises InvalidInputError for a location that is not allowed; StoreError for a file that is missing or cannot be read; DataError for one that has changed, and
        for a span that reaches beyond its end. `key` is the location."""
        locations = [plain_location(location) for location in locations]
        parts = _parts([self.find(location) for location in locations], spans)
        wanted = _Wanted(locations, checks, expect)
        if len(parts) == 1 and parts[0].names.size == len(locations):
            return _fetched(parts[0], spans, wanted, held)
        if held is not None and expect is None:
            wanted = wanted._replace(expect=held.versions)
        return _joined(parts, spans, wanted)


NO_PLACES: Final = VirtualPlaces(())


# --- fetching -------------------------------------------------------------------------------------------------------------------------


class _Wanted(Record):
    """What a fetch asks for beside its spans; a row a name."""

    locations: Sequence[str]
    checks: Sequence[FileCheck | None] | None
    expect: Sequence[Version | None] | None


class _Part(Record):
    """Some files of one store: of a disk, as many as may be open at once. names, int64[k], are rows of the locations, and keys and places theirs."""

    store: Store
    names: Columns
    keys: Sequence[str]
    places: Sequence[VirtualPlace]

    def seen(self, fetched: Fetched, i: int) -> FileCheck:
        """The state of a file from what was fetched of these."""
        return self.places[i].seen(self.keys[i], fetched.versions[i], int(fetched.sizes[i]))


def _parts(found: Sequence[tuple[VirtualPlace, str]], spans: Columns | None) -> list[_Part]:
    """The files by store. The part with most bytes comes first, as it alone is read where it lies."""
    stores: dict[int, Store] = {}
    of_store: dict[int, list[int]] = {}
    for name, (place, _) in enumerate(found):
        store = place.store
        stores[id(store)] = store
        of_store.setdefault(id(store), []).append(name)
    parts: list[_Part] = []
    for number, names in of_store.items():
        store = stores[number]
        most = _OPEN_AT_ONCE if store.capabilities.direct else len(names)
        for first in range(0, len(names), most):
            page = names[first : first + most]
            parts.append(
                _Part(
                    store,
                    np.array(page, np.int64),
                    [found[name][1] for name in page],
                    [found[name][0] for name in page],
                )
            )
    if spans is None or len(parts) < 2:
        return parts
    asked = np.zeros(len(found), np.float64)
    np.add.at(asked, spans[:, 0], np.maximum(spans[:, 2], 0))
    return sorted(parts, key=lambda part: -float(asked[part.names].sum()))


def _fetched(part: _Part, spans: Columns, wanted: _Wanted, held: Fetched | None) -> Fetched:
    """The spans, int64[n, 3] of (row of the part, start, length), in files that are what they should be."""
    names = part.names.tolist()
    expect = None if wanted.expect is None else [wanted.expect[name] for name in names]
    try:
        if held is None and expect is None and wanted.checks is not None and not part.store.capabilities.direct:
            fetched = _fetched_as_checked(part, spans, [wanted.checks[name] for name in names])
        else:
            fetched = fetch_spans(part.store, part.keys, spans, expect=expect, held=held)
    except StoreError as error:
        raise _unreadable(part, wanted.locations, error) from error
    for i, name in enumerate(names):
        status, version = fetched.status[i], fetched.versions[i]
        if status in {ABSENT_KEY, FOLDER} or (status != FOUND and version is None):
            raise StoreError(
                "the file that holds virtual chunks is not there",
                errno=errno.ENOENT,
                key=wanted.locations[name],
                hint="bring it back, or map its prefix to where it lies now: virtual_prefixes={prefix: place}",
            )
        check = None if wanted.checks is None else wanted.checks[name]
        if check is not None and (change := what_differs(check, part.seen(fetched, i))):
            raise _changed(wanted.locations[name], change)
    if len(spans):
        size, (_, start, length) = fetched.sizes[spans[:, 0]], spans.T
        beyond = np.flatnonzero((size >= 0) & (start >= 0) & ((start > size) | (length > size - start)))
        if beyond.size:
            row = int(beyond[0])
            raise _changed(
                wanted.locations[names[int(spans[row, 0])]],
                f"{length[row]} bytes at {start[row]} are asked for, and it has {size[row]}",
            )
    return fetched


def _fetched_as_checked(part: _Part, spans: Columns, checks: Sequence[FileCheck | None]) -> Fetched:
    """The spans, of which the server is told what version each file has to have: bytes of another one are not even sent. Where it has none such, the answer is about
    what there is, so that it can be said what became of it."""
    expect = [place.expected(key, check) for place, key, check in zip(part.places, part.keys, checks, strict=True)]
    if any(version is not None for version in expect):
        fetched = fetch_spans(part.store, part.keys, spans, expect=expect)
        if STALE not in fetched.status:
            return fetched
        present = part.store.fetch(part.keys, NO_SPANS)
        for i, check in enumerate(checks):
            if fetched.status[i] == STALE and (
                present.status[i] != FOUND or (check is not None and what_differs(check, part.seen(present, i)))
            ):
                return present._replace(rows=np.full((len(spans), 3), (MISSING, 0, 0), np.int64))
    return fetch_spans(part.store, part.keys, spans)


def _unreadable(part: _Part, locations: Sequence[str], error: StoreError) -> StoreError:
    """The error of a store with the location in place of the key."""
    by_key = dict(zip(part.keys, part.names.tolist(), strict=True))
    name = by_key.get(error.key or "")
    hint = error.hint
    if error.errno == errno.ELOOP:
        hint = "allow the folder that it really lies in, and refer to it there"
    return StoreError(
        f"virtual chunks cannot be read: {error.message}",
        errno=error.errno,
        key=error.key if name is None else locations[name],
        path=error.path,
        hint=hint,
    )


def _changed(location: str, change: str) -> DataError:
    return DataError(
        f"the file that holds virtual chunks is not the one that they refer to: {change}",
        key=location,
        hint="bring the old file back, or set the references anew",
    )


def _joined(parts: Sequence[_Part], spans: Columns, wanted: _Wanted) -> Fetched:
    """The answers of several places as one. Two sets of open files cannot be one, so what the others hold is read into memory, a buffer each."""
    count = len(wanted.locations)
    status, sizes = [FOUND] * count, np.full(count, -1, np.int64)
    versions: list[Version | None] = [None] * count
    young = [False] * count
    rows = np.full((len(spans), 3), (MISSING, 0, 0), np.int64)
    sources = Sources(None, ())
    asked = [_inner(part, spans, count) for part in parts]
    for part, (which, _), fetched in zip(
        parts, asked, _all_fetched(parts, [inner for _, inner in asked], wanted), strict=True
    ):
        for i, name in enumerate(part.names.tolist()):
            status[name], versions[name], sizes[name] = fetched.status[i], fetched.versions[i], fetched.sizes[i]
            young[name] = bool(fetched.young and fetched.young[i])
        if sources.files is None or fetched.sources.files is None:
            sources, rows[which] = joined_sources(sources, fetched.sources, fetched.rows)
            continue
        there = np.flatnonzero(fetched.rows[:, 0] != MISSING)
        starts = np.concatenate(([0], np.cumsum(fetched.rows[there, 2])))
        buffer = np.empty(int(starts[-1]), np.uint8)
        for row, code, text in _kernel.read_rows(
            *fetched.sources, np.ascontiguousarray(fetched.rows[there]), buffer, starts, _THREADS
        ):
            raise _unread(wanted.locations[spans[which[there[row]], 0]], code, text)
        sources = sources._replace(buffers=[*sources.buffers, buffer])
        rows[which[there], 0] = -len(sources.buffers)
        rows[which[there], 1], rows[which[there], 2] = starts[:-1], np.diff(starts)
    return Fetched(sources, status, versions, sizes, rows, young if any(young) else None)


def _inner(part: _Part, spans: Columns, count: int) -> tuple[Columns, Columns]:
    """Which spans of `count` files are of this part, and those with its own rows in place of theirs."""
    place = np.full(count, -1, np.int64)
    place[part.names] = np.arange(part.names.size)
    which = np.flatnonzero(place[spans[:, 0]] >= 0)
    inner = spans[which]
    inner[:, 0] = place[inner[:, 0]]
    return which, inner


def _all_fetched(parts: Sequence[_Part], spans: Sequence[Columns], wanted: _Wanted) -> Iterator[Fetched]:
    """Each part, fetched; at the same time where several lie at a distance. Of disks one after the other, so that few files are open at once."""
    far = [number for number, part in enumerate(parts) if not part.store.capabilities.direct]
    if len(far) < 2:
        for part, inner in zip(parts, spans, strict=True):
            yield _fetched(part, inner, wanted, None)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(len(far), _STORES_AT_ONCE)) as pool:
        coming = {number: pool.submit(_fetched, parts[number], spans[number], wanted, None) for number in far}
        for number, (part, inner) in enumerate(zip(parts, spans, strict=True)):
            yield coming[number].result() if number in coming else _fetched(part, inner, wanted, None)


def _unread(location: str, code: int, text: str) -> StoreError | DataError:
    """The error for a row that the kernel could not read."""
    if code != _kernel.FAILED_IO:
        return _changed(location, f"it changed while it was read ({text})")
    number = text.split(" ", 1)[0]
    return StoreError(
        f"virtual chunks cannot be read: {text}", errno=int(number) if number.isdigit() else None, key=location
    )
