"""The values that pass through the store port, and the pure rules of their columns: spans, rows, pieces. No I/O, no kernel at run time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Sized
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import numpy as np

from frazil.base import arrays
from frazil.base.record import Record
from frazil.errors import InvalidInputError, StoreError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil import _kernel
    from frazil._kernel import Buffer

SourceBuffer: TypeAlias = "bytes | memoryview | _kernel.Segment | NDArray[np.generic]"
Columns: TypeAlias = arrays.Columns
T = TypeVar("T")
Version = bytes  # opaque; equal versions of a key mean equal bytes
# one for each name: an expected one, None is any; a present one, None is not known, or no object
Versions: TypeAlias = Sequence[Version | None]


class CreateOnly(bytes):
    """Equal to ABSENT, for stores that treat both alike."""


ABSENT: Final[Version] = b""  # expect: the key must not exist
CREATE_ONLY: Final[Version] = CreateOnly()  # expect: as ABSENT, for a key that is only created and never replaced
# expect, on local disks, for the last key of a call: as CREATE_ONLY, but created only after all others are there and synced
CREATE_LAST: Final[Version] = CreateOnly()
ANY: Final = None  # expect: any version, or no value

FOUND, ABSENT_KEY, STALE, UNKNOWN, FOLDER = 0, 1, 2, 3, 4  # status of a name in Fetched
MISSING: Final = -(2**63)  # the blob of a row without an object; the same number as in the kernel

WHOLE: Columns = np.array([[0, 0, -1]], np.int64)  # the spans of one whole object
NO_SPANS: Columns = np.zeros((0, 3), np.int64)  # a fetch that only looks names up
WHOLE.flags.writeable = NO_SPANS.flags.writeable = False

OPEN_AT_ONCE: Final = 256  # objects of one fetch: a process may often have 1024 files open
_FEW = 8  # up to this many spans, Python's integers are faster than columns
_LOWEST_START = -(2**62)


class Capabilities(Record):
    """What a store can do, as a value. Requiring a missing capability is a StoreError, writing to a store that is not writable a ReadOnlyError."""

    readable: bool = True
    writable: bool = True
    listable: bool = True
    erasable: bool = True
    conditional: bool = True  # put and erase honour `expect`
    case_sensitive: bool = True  # "a" and "A" are two keys
    direct: bool = False  # the number of spans does not add to the cost of a fetch: the kernel reads files itself, or the values are in memory
    sized: bool = False  # a fetch without spans makes no request for each name: sizes are known before values are read
    streams: bool = False  # put_many takes a value that comes in parts (Pieces.parts)
    erases_prefixes: bool = False  # erase_many takes prefixes: "", and names that end in "/"
    conditions_seen: bool = True  # conditions are known to hold: the server has refused one, or there is no server
    conditional_erase: bool = True  # erase honours `expect`, where put does
    local: bool = False  # keys are paths of files on a local disk
    guarded: bool = False  # put_many and erase_many honour `expect` among writers of this process, but not elsewhere

    @property
    def expects(self) -> bool:
        """Whether an `expect` for put_many and erase_many prevents lost writes."""
        return self.conditional or self.guarded


class Sources(Record):
    """The sources that the kernel reads: rows name a file of `files` (>= 0) or a buffer (< 0); see _kernel.pyi."""

    files: _kernel.Files | None
    buffers: Sequence[SourceBuffer]


class Fetched(Record):
    """The result of a fetch: where the kernel finds the bytes of each span.

    status    a code for each name: FOUND, ABSENT_KEY, STALE (not the version expected), UNKNOWN (opened only when it is read) or
              FOLDER (no object, but a folder of a local disk)
    versions  a version for each name; None without an object, or if it is not known (it is known for every object that a conditional store finds)
    sizes     int64, bytes of each object; -1 if not known or without an object
    rows      int64[n, 3], a row for each span: (blob, start, length) in `sources`, or MISSING as its blob
    version_may_repeat  for each name, whether the next object may have the same version, as time stamps are coarse. Such a version is valid for `expect` while
                        this Fetched, which holds the object, is kept, and must not be remembered longer. None: no version may repeat
    resume    what the store that made this answer needs beside it to continue it (continue_from)
    stream    for the answer to a fetch of one name: its bytes from the first to the last, at most a given number of them in memory, if every span would have to
              be read from the beginning of the object; else None. Raises as a fetch, ConflictError if the object is replaced meanwhile
    """

    sources: Sources
    status: Sequence[int]
    versions: Versions
    sizes: Columns
    rows: Columns
    version_may_repeat: Sequence[bool] | None = None
    resume: object = None
    stream: Callable[[int], Iterator[bytes]] | None = None


PAGE: Final = 2**16  # rows of a page, where a listing starts again for each page


class Page(Record):
    """A page of a listing, a row for each key or prefix.

    keys      sorted by their UTF-8 bytes; those that end in "/" are prefixes, which have keys below them
    next      `after` of the next page, which may be empty; None: the listing ends here
    sizes     int64, bytes of each value; -1 for a prefix, and for a value that was removed meanwhile
    versions  of each value; None for a prefix, and where the store lists none
    modified  int64, when each value was stored, ns since 1970; -1 if not known
    The last three are None if no details were requested."""

    keys: Sequence[str]
    next: str | None = None
    sizes: Columns | None = None
    versions: Versions | None = None
    modified: Columns | None = None

    def prefixes(self) -> arrays.Flags:
        """Which rows are prefixes, bool[n]."""
        return np.fromiter((key[-1] == "/" for key in self.keys), np.bool_, len(self.keys))


class NameColumn(Record):
    """The names of one length directly below a prefix, n of them.

    names   bytes, sorted;  sizes: int64[n], bytes of each value, None if not requested"""

    names: NDArray[np.bytes_]
    sizes: Columns | None = None


def no_names(length: int, *, sizes: bool) -> NameColumn:
    return NameColumn(np.zeros(0, f"S{length}"), np.zeros(0, np.int64) if sizes else None)


NO_KEYS: Final = Page((), None, np.zeros(0, np.int64), (), np.zeros(0, np.int64))


class Pieces(Record):
    """New values, put together from pieces: value i is rows[offsets[i]:offsets[i + 1]] of the sources, one after the other.
    Rows are resolved: 0 <= start, 0 <= length, inside their object.

    parts  the bytes of the only value, which are then in no source: its one row has their number. Only for stores with the capability
           `streams`, and with ANY: no version is compared, and the one in the answer may be of no object"""

    sources: Sources
    rows: Columns
    offsets: Columns
    parts: Iterator[bytes] | None = None


class Changed(Record):
    """A conditional put or erase found another version than it expected; `version` is the present one (ABSENT: none).

    lost  the answer to an earlier try of the same write did not arrive: that write may have been done, and been replaced since. Repeating a write of the same
          value is safe; counting or appending must not be repeated"""

    version: Version
    lost: bool = False


def check_not_lost(key: str, answer: Changed) -> None:
    """Raises StoreError where the next try might apply a change twice."""
    if answer.lost:
        raise StoreError(
            "whether the value was stored is not known: the answer was lost, and another writer has stored one since",
            key=key,
            hint="read the value, and check whether it has your change",
        )


def pages(keys: Sized) -> Iterator[slice]:
    """The keys in parts, each for one fetch."""
    for first in range(0, len(keys), OPEN_AT_ONCE):
        yield slice(first, first + OPEN_AT_ONCE)


def whole_spans(count: int, length: int = -1) -> Columns:
    """The spans of whole objects, or of their first bytes."""
    spans = np.zeros((count, 3), np.int64)
    spans[:, 2] = length
    if count > 1:
        spans[:, 0] = np.arange(count)
    return spans


def up_to(most: int) -> int:
    """The length of a span up to the end of its object, for which at most `most` bytes are expected."""
    return -1 - most


def resolve_span(start: int, length: int, size: int) -> tuple[int, int]:
    """(start, length) of a span in an object of `size` bytes, both >= 0.

    A suffix (start < 0) is clipped to the object, a length < 0 means up to its end; other ranges are not changed, even where they
    reach beyond the end."""
    if start < 0:
        begin = size + start
        end = size if length < 0 else begin + min(length, -start)
        start = max(begin, 0)
        return start, max(end - start, 0)
    return start, max(size - start, 0) if length < 0 else length


def resolve_spans(start: Columns, length: Columns, size: Columns) -> tuple[Columns, Columns]:
    """resolve_span on columns."""
    suffix = np.maximum(start, _LOWEST_START)
    begin = size + suffix
    first = np.where(start < 0, np.maximum(begin, 0), start)
    end = np.where((length < 0) | (length > -suffix), size, begin + np.clip(length, 0, size - begin))
    tail = np.maximum(end - first, 0)
    plain = np.where(length < 0, np.maximum(size - first, 0), length)
    return first, np.where(start < 0, tail, plain)


def clip_span(start: int, length: int, size: int) -> tuple[int, int]:
    """resolve_span, clipped to the object."""
    start, length = resolve_span(start, length, size)
    start = min(start, size)
    return start, min(length, size - start)


def clip_spans(start: Columns, length: Columns, size: Columns) -> tuple[Columns, Columns]:
    """clip_span on columns."""
    start, length = resolve_spans(start, length, size)
    start = np.minimum(start, size)
    return start, np.minimum(length, size - start)


def object_rows(spans: Columns, status: Sequence[int], sizes: Columns, *, files: bool = False) -> Columns:
    """The rows of spans (int64[n, 3]: name, start, length) where buffer i (or, with `files`, file i) is the whole object i; MISSING where its status
    is not FOUND."""
    if len(spans) <= _FEW:
        rows = spans.copy()
        for i, (name, start, length) in enumerate(spans.tolist()):
            if status[name] != FOUND:
                rows[i] = (MISSING, 0, 0)
                continue
            if not files:
                rows[i, 0] = -1 - name
            if start < 0 or length < 0:
                rows[i, 1], rows[i, 2] = resolve_span(start, length, int(sizes[name]))
        return rows
    rows = np.empty((len(spans), 3), np.int64)
    name = spans[:, 0]
    found = (np.fromiter(status, np.uint8, len(status)) == FOUND)[name]
    rows[:, 0] = np.where(found, name if files else -1 - name, MISSING)
    start, length = resolve_spans(spans[:, 1], spans[:, 2], sizes[name])
    rows[:, 1] = np.where(found, start, 0)
    rows[:, 2] = np.where(found, length, 0)
    return rows


def mark_stale(status: list[int], versions: Versions, expect: Versions | None) -> None:
    """Makes each name STALE that does not have the version expected."""
    for i, wanted in enumerate(() if expect is None else expect):
        if wanted is not None and wanted != (versions[i] or ABSENT):
            status[i] = STALE


def expecting(fetched: Fetched, spans: Columns, expect: Versions | None) -> Fetched:
    """An answer to a fetch without expected versions, as that to one with them."""
    if expect is None:
        return fetched
    status, rows = list(fetched.status), fetched.rows.copy()
    mark_stale(status, fetched.versions, expect)
    rows[np.array(status, np.int64)[spans[:, 0]] == STALE] = MISSING, 0, 0
    return fetched._replace(status=status, rows=rows)


def continued(before: Fetched, kind: type[T]) -> T:
    """`resume` of an answer that a fetch continues. Raises InvalidInputError for the answer of another store."""
    if not isinstance(before.resume, kind):
        raise InvalidInputError("the Fetched to hold came from another store")
    return before.resume


def replaced_between_requests(fetched: Fetched, expect: Versions | None) -> bool:
    """Whether a name is STALE without an expected version: its object was replaced between two requests of one fetch, which must start again."""
    if STALE not in fetched.status:
        return False
    return expect is None or (STALE, None) in zip(fetched.status, expect, strict=True)


def pieces_of(values: Sequence[Buffer]) -> Pieces:
    """Whole values, one piece each. Raises InvalidInputError for a value that is not a buffer of bytes."""
    buffers = [flat_buffer(value) for value in values]
    rows = np.array([(-1 - i, 0, len(buffer)) for i, buffer in enumerate(buffers)], np.int64)
    return Pieces(Sources(None, buffers), rows.reshape(len(buffers), 3), np.arange(len(buffers) + 1))


def flat_buffer(value: Buffer) -> bytes | memoryview:
    """The bytes of any buffer, contiguous and in C order; copied only if they are not so in memory."""
    if isinstance(value, bytes):
        return value
    try:
        view = memoryview(value)  # type: ignore[arg-type] # see Buffer
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"a value must be bytes, not {type(value).__name__}",
            hint="give bytes or another object with the buffer protocol",
        ) from None
    try:
        return view.cast("B")
    except TypeError:  # strided, empty, or of items that memoryview does not know
        return view.tobytes()
