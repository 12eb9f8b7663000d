"""Virtual chunks, which are in files outside of the repository: finds these files, reads them, and detects files that were removed or changed. Neither the
fill value nor bytes of another file are ever returned for them. prefixes.py knows which files may be read, file_checks.py compares states of files."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np

from frazil import _kernel
from frazil.base import threads
from frazil.base.arrays import offsets_of
from frazil.base.record import Record
from frazil.base.reports import counted
from frazil.errors import DataError, InvalidInputError, StoreError
from frazil.formats.manifests import FileCheck
from frazil.repository.virtual.file_checks import plain_location, what_differs
from frazil.repository.virtual.locations import parse_location
from frazil.repository.virtual.prefixes import Prefixes, VirtualContainer, make_containers
from frazil.runtime import DEFAULT
from frazil.stores.array_storage.chunk_storage import fetch_spans
from frazil.stores.store import Store
from frazil.stores.transfer.composed_values import joined_sources
from frazil.stores.transfer.content import read_error
from frazil.stores.values import ABSENT_KEY, FOLDER, FOUND, MISSING, NO_SPANS, STALE, Columns, Fetched, Sources

Ranges: TypeAlias = tuple[Sources, Columns]  # as in Fetched
Checks: TypeAlias = "Sequence[FileCheck | None] | None"

_OPEN_AT_ONCE: Final = 256  # files of one fetch: a process may often have 1024 open
_STORES_AT_ONCE: Final = 8
_THREADS: Final = 4  # that read into memory: they mostly wait


def open_containers(
    prefixes: Prefixes | None, requests_in_flight: int = DEFAULT.requests_in_flight
) -> VirtualContainers:
    """What a user allows at opening (`virtual_prefixes=`): prefixes of URLs that end in "/", or a mapping from prefixes to the place of their files: a folder,
    a URL, a Store, or None if files are read at their own URLs. Nothing is opened yet. Raises InvalidInputError."""
    return NO_CONTAINERS if prefixes is None else VirtualContainers(make_containers(prefixes, requests_in_flight))


class VirtualContainers(Record):
    """All prefixes that a user allows, the longest first. Safe to use from many threads; pickles as locations."""

    containers: tuple[VirtualContainer, ...]

    @property
    def direct(self) -> bool:
        """Whether all files can be read directly (Capabilities.direct). False if the store of a URL is not opened yet."""
        return all(
            isinstance(container.source, Store) and container.source.capabilities.direct
            for container in self.containers
        )

    @property
    def elsewhere(self) -> tuple[object, ...]:
        """Mapped prefixes: with their stores, and the prefix of keys in these."""
        return tuple(
            [(container.prefix, container.source, container.keys) for container in self.containers if container.address]
        )

    def find(self, location: str) -> tuple[VirtualContainer, str]:
        """The container of a location, and its key there. Raises InvalidInputError for an invalid location, or one that is not allowed."""
        parsed = parse_location(location)
        for container in self.containers:
            if parsed.is_below(container.below):
                return container, container.key(parsed)
        if parsed.folder:
            raise InvalidInputError("the location of a virtual chunk is a file, not a folder", key=location)
        raise InvalidInputError(
            "the location of a virtual chunk is outside of the prefixes that are allowed",
            key=location,
            hint=f"if you trust it, open the repository with virtual_prefixes=[{location.rpartition('/')[0] + '/'!r}]",
        )

    def look_up(self, locations: Sequence[str]) -> dict[str, FileCheck]:
        """The state of each file that exists. Raises InvalidInputError as `find`, StoreError if a store fails."""
        checks: dict[str, FileCheck] = {}
        locations = list(dict.fromkeys(locations))
        for part in _parts([self.find(location) for location in locations], None):
            try:
                fetched = part.store.fetch(part.keys, NO_SPANS)
            except StoreError as error:
                raise _unreadable(part, locations, error) from error
            for i, name in enumerate(part.names.tolist()):
                if fetched.status[i] == FOUND:
                    checks[locations[name]] = part.file_check(fetched, i)
        return checks

    def fetch(self, locations: Sequence[str], spans: Columns, checks: Checks = None) -> Ranges:
        """Byte ranges of files: as Store.fetch, with `spans` that refer to locations, which may repeat. checks: the required state of each file. Files are
        opened here, as the kernel would use the fill value for a missing one.

        Raises InvalidInputError for a location that is not allowed, StoreError for a file that is missing or cannot be read, DataError for one that has changed
        or is too short. `key` is the location."""
        locations = [plain_location(location) for location in locations]
        parts = _parts([self.find(location) for location in locations], spans)
        if len(parts) == 1 and parts[0].names.size == len(locations):
            return _fetched(parts[0], spans, locations, checks)
        return _joined(parts, spans, locations, checks)


NO_CONTAINERS: Final = VirtualContainers(())


# --- fetching -------------------------------------------------------------------------------------------------------------------------


class _Part(Record):
    """Some files of one store; of a disk, at most as many as may be open at once. names, int64[k], are rows of the locations; keys and containers are in the
    same order."""

    store: Store
    names: Columns
    keys: Sequence[str]
    containers: Sequence[VirtualContainer]

    def file_check(self, fetched: Fetched, i: int) -> FileCheck:
        """The state of file i, from what was fetched."""
        return self.containers[i].file_check(self.keys[i], fetched.versions[i], int(fetched.sizes[i]))


def _parts(found: Sequence[tuple[VirtualContainer, str]], spans: Columns | None) -> list[_Part]:
    """The files by store. The part with the most bytes comes first, as only the first is read without a copy into memory."""
    stores: dict[int, tuple[Store, list[int]]] = {}
    for name, (container, _) in enumerate(found):
        store = container.store
        stores.setdefault(id(store), (store, []))[1].append(name)
    parts: list[_Part] = []
    for store, names in stores.values():
        most = _OPEN_AT_ONCE if store.capabilities.direct else len(names)
        for first in range(0, len(names), most):
            page = names[first : first + most]
            containers, keys = zip(*[found[name] for name in page], strict=True)
            parts.append(_Part(store, np.array(page, np.int64), keys, containers))
    if spans is None or len(parts) < 2:
        return parts
    nbytes = np.zeros(len(found), np.float64)
    np.add.at(nbytes, spans[:, 0], np.maximum(spans[:, 2], 0))
    return sorted(parts, key=lambda part: -float(nbytes[part.names].sum()))


def _fetched(part: _Part, spans: Columns, locations: Sequence[str], checks: Checks) -> Ranges:
    """The spans, int64[n, 3] of (row of the part, start, length), in files that pass their checks."""
    names = part.names.tolist()
    try:
        if checks is not None and not part.store.capabilities.direct:
            fetched = _fetched_as_checked(part, spans, [checks[name] for name in names])
        else:
            fetched = fetch_spans(part.store, part.keys, spans)
    except StoreError as error:
        raise _unreadable(part, locations, error) from error
    for i, name in enumerate(names):
        status, version = fetched.status[i], fetched.versions[i]
        if status in {ABSENT_KEY, FOLDER} or (status != FOUND and version is None):
            raise StoreError(
                "the file of these virtual chunks does not exist",
                errno=errno.ENOENT,
                key=locations[name],
                hint="restore it, or map its prefix to its new location: virtual_prefixes={prefix: location}",
            )
        check = None if checks is None else checks[name]
        if check is not None and (change := what_differs(check, part.file_check(fetched, i))):
            raise _changed(locations[name], change)
    if len(spans):
        size, (_, start, length) = fetched.sizes[spans[:, 0]], spans.T
        too_long = np.flatnonzero((size >= 0) & (start >= 0) & ((start > size) | (length > size - start)))
        if too_long.size:
            row = int(too_long[0])
            raise _changed(
                locations[names[int(spans[row, 0])]],
                f"it has {counted(int(size[row]), 'byte')}, and {length[row]} at {start[row]} are requested",
            )
    return fetched.sources, fetched.rows


def _fetched_as_checked(part: _Part, spans: Columns, checks: Sequence[FileCheck | None]) -> Fetched:
    """The spans, with the required version of each file in the request, so that the server sends no bytes of another version. If a file has another version,
    the answer has no bytes but the present versions, for the error."""
    expect = [
        container.expected(key, check) for container, key, check in zip(part.containers, part.keys, checks, strict=True)
    ]
    if any(version is not None for version in expect):
        fetched = fetch_spans(part.store, part.keys, spans, expect=expect)
        if STALE not in fetched.status:
            return fetched
        present = part.store.fetch(part.keys, NO_SPANS)
        for i, check in enumerate(checks):
            if fetched.status[i] == STALE and (
                present.status[i] != FOUND or (check is not None and what_differs(check, part.file_check(present, i)))
            ):
                return present._replace(rows=np.full((len(spans), 3), (MISSING, 0, 0), np.int64))
    return fetch_spans(part.store, part.keys, spans)


def _unreadable(part: _Part, locations: Sequence[str], error: StoreError) -> StoreError:
    """The error of a store with the location in place of the key."""
    by_key = dict(zip(part.keys, part.names.tolist(), strict=True))
    name = by_key.get(error.key or "")
    hint = error.hint
    if error.errno == errno.ELOOP:
        hint = "allow the folder of the link's target, and refer to the file there"
    return type(error)(
        f"virtual chunks cannot be read: {error.message}",
        errno=error.errno,
        key=error.key if name is None else locations[name],
        path=error.path,
        hint=hint,
    )


def _changed(location: str, change: str) -> DataError:
    return DataError(
        f"the file of these virtual chunks has changed: {change}",
        key=location,
        hint="restore the old file, or set the references again",
    )


def _joined(parts: Sequence[_Part], spans: Columns, locations: Sequence[str], checks: Checks) -> Ranges:
    """Joins the answers of several parts. An answer has one set of open files, so all parts but the first are read into memory."""
    rows = np.full((len(spans), 3), (MISSING, 0, 0), np.int64)
    joined = Sources(None, ())
    requests = [_spans_of_part(part, spans, len(locations)) for part in parts]
    answers = _all_fetched(parts, [inner for _, inner in requests], locations, checks)
    for (which, _), (sources, found) in zip(requests, answers, strict=True):
        if joined.files is None or sources.files is None:
            joined, rows[which] = joined_sources(joined, sources, found)
            continue
        existing = np.flatnonzero(found[:, 0] != MISSING)
        starts = offsets_of(found[existing, 2])
        buffer = np.empty(int(starts[-1]), np.uint8)
        for row, code, text in _kernel.read_rows(
            *sources, np.ascontiguousarray(found[existing]), buffer, starts, _THREADS
        ):
            raise _read_error(locations[spans[which[existing[row]], 0]], code, text)
        joined = joined._replace(buffers=[*joined.buffers, buffer])
        rows[which[existing], 0] = -len(joined.buffers)
        rows[which[existing], 1], rows[which[existing], 2] = starts[:-1], np.diff(starts)
    return joined, rows


def _spans_of_part(part: _Part, spans: Columns, count: int) -> tuple[Columns, Columns]:
    """Which spans of `count` files belong to this part, and these spans with rows of the part."""
    position = np.full(count, -1, np.int64)
    position[part.names] = np.arange(part.names.size)
    which = np.flatnonzero(position[spans[:, 0]] >= 0)
    inner = spans[which]
    inner[:, 0] = position[inner[:, 0]]
    return which, inner


def _all_fetched(
    parts: Sequence[_Part], spans: Sequence[Columns], locations: Sequence[str], checks: Checks
) -> Iterator[Ranges]:
    """Fetches each part: remote parts at the same time, parts on disks one after the other, so that few files are open at once."""
    far = [number for number, part in enumerate(parts) if not part.store.capabilities.direct]
    if len(far) < 2:
        for part, inner in zip(parts, spans, strict=True):
            yield _fetched(part, inner, locations, checks)
        return
    with threads.Threads(min(len(far), _STORES_AT_ONCE), "frazil virtual chunks") as pool:
        coming = {number: pool.submit(_fetched, parts[number], spans[number], locations, checks) for number in far}
        for number, (part, inner) in enumerate(zip(parts, spans, strict=True)):
            yield coming[number].result() if number in coming else _fetched(part, inner, locations, checks)


def _read_error(location: str, code: int, text: str) -> StoreError | DataError:
    """The error for a row that the kernel cannot read."""
    if code != _kernel.FAILED_IO:
        return _changed(location, f"it changed while it was read ({text})")
    return read_error(code, text, location)
