"""Virtual chunks: chunks in files outside of the repository. Which of those a user allows, where they really lie, reading them, and noticing that one is gone or has
changed: never the fill value, never bytes of another file.

What a location is, virtual_locations.py says; what is kept of a file's state, virtual_checks.py; columns of new references are made in virtual_columns.py."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil import _kernel
from frazil.errors import DataError, InvalidInputError, StoreError
from frazil.record import Record
from frazil.repository.virtual_checks import FileCheck, plain_location, what_differs
from frazil.repository.virtual_locations import VirtualLocation, file_location, parse_location
from frazil.stores.chunk_storage import fetch_spans
from frazil.stores.local import LocalStore
from frazil.stores.locations import Location, resolve
from frazil.stores.store import NO_SPANS, Store
from frazil.stores.values import ABSENT_KEY, FOLDER, FOUND, MISSING, Columns, Fetched, Sources, Version

if TYPE_CHECKING:
    from frazil.stores.values import SourceBuffer

__all__ = ["NO_PLACES", "VirtualPlace", "VirtualPlaces", "open_places"]

_OPEN_AT_ONCE: Final = 256  # files of one fetch: a process may often have 1024 open
_THREADS: Final = 4  # that read into memory: most of the time they wait


class VirtualPlace(Record):
    """Where the files below one prefix are read.

    prefix   as the user wrote it
    below    its parts
    store    that has them
    keys     what their keys begin with: "", or ending in "/"
    address  of that, where the user mapped the prefix to it; "" where the files lie under their own names
    """

    prefix: str
    below: VirtualLocation
    store: Store
    keys: str
    address: str

    def key(self, location: VirtualLocation) -> str:
        """The key of a file below the prefix."""
        return self.keys + "/".join(location.parts[len(self.below.parts) :])

    def seen(self, key: str, version: Version | None, size: int) -> FileCheck:
        """The state of a file from what a fetch tells of it."""
        place = f"{self.address}{key}" if self.address else ""
        if isinstance(self.store, LocalStore) and version is not None and len(version) == _VERSION.size:
            return FileCheck(size, _VERSION.unpack(version)[2], "", place)
        tag = "" if version is None else version.decode() if _is_plain(version) else version.hex()
        return FileCheck(size, -1, tag, place)


_VERSION: Final = struct.Struct("<qqq")  # of LocalStore: inode, size, time of change in ns


def _is_plain(version: Version) -> bool:
    return version.isascii() and version.decode().isprintable()


def open_places(prefixes: Iterable[str] | Mapping[str, Location | None] | None) -> VirtualPlaces:
    """What a user allows at opening (`virtual_prefixes=`): prefixes of URLs, each ending in "/", of files under their own names; or a mapping from prefixes to where
    those files lie: a folder, a URL, a Store; None for under their own names. Nothing is opened yet.

    Raises InvalidInputError for prefixes that are none, and for schemes that are not read yet unless they are mapped."""
    if prefixes is None:
        return NO_PLACES
    if isinstance(prefixes, str) or not isinstance(prefixes, Iterable):
        raise InvalidInputError(
            f"virtual_prefixes are several prefixes of URLs, found {prefixes!r}",
            hint='virtual_prefixes=["file:///data/"]',
        )
    mapped = prefixes.items() if isinstance(prefixes, Mapping) else [(prefix, None) for prefix in prefixes]
    places = [_place(prefix, to) for prefix, to in mapped]
    return VirtualPlaces(tuple(sorted(places, key=lambda place: -len(place.below.parts))))


def _place(prefix: str, to: Location | None) -> VirtualPlace:
    if not isinstance(prefix, str) or not prefix.endswith("/"):
        raise InvalidInputError(
            f"a prefix of virtual chunks is a URL that ends in a slash, found {prefix!r}",
            hint='virtual_prefixes=["file:///data/"]',
        )
    below = parse_location(prefix)
    path = "/" + "/".join(below.parts)
    if to is None:
        if below.scheme != "file":
            raise InvalidInputError(
                f"virtual chunks at {below.scheme}:// cannot be read yet",
                key=prefix,
                hint=f'map the prefix to a copy, such as virtual_prefixes={{{prefix!r}: "file:///copy/"}}',
            )
        return VirtualPlace(prefix, below, LocalStore(path, read_only=True), "", "")
    store, keys = resolve(to)
    if type(store) is not LocalStore:
        return VirtualPlace(prefix, below, store, keys, f"{store!r} ")
    address = file_location(store.path.rstrip("/") + "/")
    own = below.scheme == "file" and store.path == path
    return VirtualPlace(prefix, below, LocalStore(store.path, read_only=True), keys, "" if own else address)


class VirtualPlaces(Record):
    """All that a user allows, the longest prefix first. Safe to use from many threads; pickles by locations."""

    places: tuple[VirtualPlace, ...]

    @property
    def direct(self) -> bool:
        """Whether all files are at hand (Capabilities.direct)."""
        return all(place.store.capabilities.direct for place in self.places)

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
        for part in _parts([self.find(location) for location in locations], None):
            fetched = part.place.store.fetch(part.keys, NO_SPANS)
            for i, name in enumerate(part.names.tolist()):
                if fetched.status[i] == FOUND:
                    checks[locations[name]] = part.place.seen(part.keys[i], fetched.versions[i], int(fetched.sizes[i]))
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
    """Some files of one place, as many as may be open at once: names, int64[k], are rows of the locations, and keys theirs."""

    place: VirtualPlace
    names: Columns
    keys: Sequence[str]


def _parts(found: Sequence[tuple[VirtualPlace, str]], spans: Columns | None) -> list[_Part]:
    """The files by place. The part with most bytes comes first, as it alone is read where it lies."""
    of_place: dict[int, list[int]] = {}
    for name, (place, _) in enumerate(found):
        of_place.setdefault(id(place), []).append(name)
    parts = [
        _Part(found[names[0]][0], np.array(page, np.int64), [found[name][1] for name in page])
        for names in of_place.values()
        for page in [names[first : first + _OPEN_AT_ONCE] for first in range(0, len(names), _OPEN_AT_ONCE)]
    ]
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
        fetched = fetch_spans(part.place.store, part.keys, spans, expect=expect, held=held)
    except StoreError as error:
        raise _unreadable(part, wanted, error) from error
    sizes = fetched.sizes.tolist()
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
        if check is not None and (change := what_differs(check, part.place.seen(part.keys[i], version, sizes[i]))):
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


def _unreadable(part: _Part, wanted: _Wanted, error: StoreError) -> StoreError:
    """The error of a store with the location in place of the key."""
    by_key = dict(zip(part.keys, part.names.tolist(), strict=True))
    name = by_key.get(error.key or "")
    hint = error.hint
    if error.errno == errno.ELOOP:
        hint = "allow the folder that it really lies in, and refer to it there"
    return StoreError(
        f"virtual chunks cannot be read: {error.message}",
        errno=error.errno,
        key=error.key if name is None else wanted.locations[name],
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
    files: _kernel.Files | None = None
    buffers: list[SourceBuffer] = []
    for number, part in enumerate(parts):
        place = np.full(count, -1, np.int64)
        place[part.names] = np.arange(part.names.size)
        which = np.flatnonzero(place[spans[:, 0]] >= 0)
        inner = spans[which]
        inner[:, 0] = place[inner[:, 0]]
        fetched = _fetched(part, inner, wanted, None)
        for i, name in enumerate(part.names.tolist()):
            status[name], versions[name], sizes[name] = fetched.status[i], fetched.versions[i], fetched.sizes[i]
            young[name] = bool(fetched.young and fetched.young[i])
        if number == 0:
            files, buffers, rows[which] = fetched.sources.files, [*fetched.sources.buffers], fetched.rows
            continue
        there = np.flatnonzero(fetched.rows[:, 0] != MISSING)
        starts = np.concatenate(([0], np.cumsum(fetched.rows[there, 2])))
        buffer = np.empty(int(starts[-1]), np.uint8)
        for row, code, text in _kernel.read_rows(
            *fetched.sources, np.ascontiguousarray(fetched.rows[there]), buffer, starts, _THREADS
        ):
            raise _unread(wanted.locations[spans[which[there[row]], 0]], code, text)
        buffers.append(buffer)
        rows[which[there], 0] = -len(buffers)
        rows[which[there], 1], rows[which[there], 2] = starts[:-1], np.diff(starts)
    return Fetched(Sources(files, buffers), status, versions, sizes, rows, young if any(young) else None)


def _unread(location: str, code: int, text: str) -> StoreError | DataError:
    """The error for a row that the kernel could not read."""
    if code != _kernel.FAILED_IO:
        return _changed(location, f"it changed while it was read ({text})")
    number = text.split(" ", 1)[0]
    return StoreError(
        f"virtual chunks cannot be read: {text}", errno=int(number) if number.isdigit() else None, key=location
    )
