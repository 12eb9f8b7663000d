"""Reading one range of one object of an object store: the requests that it takes, and the differences between servers.

Every request names its range, so that no response is larger: the client library would accept a body of any length. Which ranges are requested together,
and how their answers are combined, is in object_store.py; files of web servers are read by web_reader.py. versions.py has the versions of objects."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from frazil.base.packages import obstore
from frazil.base.record import Record
from frazil.base.retry import READS, attempts
from frazil.errors import StoreError
from frazil.stores.objects.client_errors import (
    breaks_off,
    failure,
    is_of_a_store,
    is_unreadable,
    meaning_of,
    read_failure,
)
from frazil.stores.objects.clients import Clients
from frazil.stores.objects.versions import condition_of, version_of
from frazil.stores.transfer.large_buffers import empty_buffer
from frazil.stores.values import Version, clip_span

if TYPE_CHECKING:
    from collections.abc import Mapping

    from obstore import GetResult, ObjectMeta

MARK: Final = (
    "frazilwrite"  # in the metadata of an object: only small letters, as other names are changed or refused by servers
)
_LAST_BYTE: Final = 2**63 - 1
_LONG_SUFFIX: Final = 2**16  # bytes of a suffix that are read and dropped rather than avoided by another request
SHORT: Final = "its answers are shorter than their headers state"
# Bytes of a body that are received at once. The client keeps what it has received of a piece, and uses that memory again for the next one: with larger pieces
# most of it was new memory, whose first use took longer than the copy
_PIECE: Final = 2**18


class RangeRequest(Record):
    """A request for one object: start and length as in a span of Store.fetch, length 0 to look it up only. expect: the version it must have, None for any."""

    key: str
    start: int = 0
    length: int = 0
    expect: Version | None = None


class Answer(Record):
    """state    "changed": its version is not the expected one; then nothing else is known
    data     the bytes of the range that exist
    size     of the object; -1 if the server does not report it
    version_may_repeat  the next object may have this version too (Fetched)
    mark     of a look-up: what the writer of the object gave it (MARK)"""

    state: Literal["found", "absent", "changed"]
    data: memoryview | bytes = b""
    version: Version | None = None
    size: int = -1
    version_may_repeat: bool = False
    mark: str | None = None


ABSENT_ANSWER: Final = Answer("absent")
CHANGED_ANSWER: Final = Answer("changed")


class RangeReader(ABC):
    """Reads ranges of the objects of one server. Finds out whether the server has ranges that count from the end."""

    __slots__ = ("_limit", "_suffixes", "_url")

    def __init__(self, url: str, limit: int, *, suffixes: bool) -> None:
        """url: of the store, without secrets; limit: bytes of one answer if the caller does not know how many it wants."""
        self._url, self._limit, self._suffixes = url, limit, suffixes

    def answer(self, request: RangeRequest) -> Answer:
        """Raises StoreError where the server cannot be reached, refuses the request, or sends something else than it announced."""
        if request.length == 0:
            return self._look_up(request)
        return self._suffix(request) if request.start < 0 else self._range(request)

    @abstractmethod
    def _look_up(self, request: RangeRequest) -> Answer:
        """Size and version of the object."""

    @abstractmethod
    def _range(self, request: RangeRequest) -> Answer:
        """A range that begins at an offset counted from the start."""

    @abstractmethod
    def _last(self, request: RangeRequest, count: int) -> Answer:
        """That many last bytes."""

    def _suffix(self, request: RangeRequest) -> Answer:
        """A range that begins at an offset counted from the end. If only the beginning of the suffix is wanted, a short suffix is read whole, and cut. The size
        is requested first where the server has no such ranges."""
        count, length = min(-request.start, _LAST_BYTE), request.length
        whole = length < 0 or length >= count
        if self._suffixes and (whole or count <= _LONG_SUFFIX):
            found = self._last(request, count)
            if found.state != "found" or whole:
                return found
            return found._replace(data=found.data[: clip_span(request.start, length, found.size)[1]])
        for _ in attempts(READS):
            head = self._look_up(request._replace(length=0))
            if head.state != "found":
                return head
            start, length = clip_span(request.start, request.length, head.size)
            if length == 0:
                return head
            part = self._range(RangeRequest(request.key, start, length, head.version))
            if part.state == "found" or request.expect is not None:
                return part
        return CHANGED_ANSWER

    def _outside(self, request: RangeRequest) -> Answer:
        """The answer where the server has no such range."""
        head = self._look_up(request._replace(length=0))
        if request.start >= 0 or head.size <= 0:
            return head
        self._suffixes = False  # a suffix of existing bytes always exists: this server does not support suffixes
        return self._suffix(request)

    def _most_bytes(self, request: RangeRequest) -> int | None:
        """How many bytes a span up to the end may have: as many as its caller expects, or the store's limit if that is more; None: any number."""
        return max(-1 - request.length, self._limit) if request.length < -1 else None

    def _check_length(self, length: int, most: int | None, key: str) -> None:
        """Raises StoreError for an object that is larger than allowed, or than all memory of this machine, before its bytes are accepted.

        most: bytes; None: any size"""
        if most is not None and length > most:
            reason = f"it has {length} bytes or more, and at most {most} are expected"
            raise read_failure(reason, "check the server; Runtime(bytes_in_flight=) raises the limit", key, self._url)
        if length > _memory():
            reason = f"the server says that it has {length} bytes, more than the memory of this machine"
            raise read_failure(reason, "check the server; parts of it can be read", key, self._url)


def _memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 2**40  # where the system does not say


class ObjectReader(RangeReader):
    """Reads through one client. Objects larger than `limit` are read in parts of this size."""

    __slots__ = ("_below", "_clients", "_reader")

    def __init__(self, clients: Clients, limit: int) -> None:
        super().__init__(clients.url, limit, suffixes=clients.kind != "AzureStore")
        self._clients = clients
        self._reader, self._below = clients.connection.reader, clients.below

    def _look_up(self, request: RangeRequest) -> Answer:
        """By its first byte: the response to a HEAD has no body, which tells whether the key is absent, or the bucket, or the whole object store. By a HEAD
        only if the object exists and its first byte cannot be read: it is archived, or the server ignores ranges."""
        response = self._get(RangeRequest(request.key), {"range": (0, 1)})
        if response.state == "found" and request.expect not in {None, response.version}:
            return CHANGED_ANSWER
        return response._replace(data=b"")

    def _version(self, meta: ObjectMeta, key: str) -> Version | None:
        version = version_of(meta, self._clients.kind)
        if version is None and self._clients.kind != "HTTPStore":
            hint = "check that an object store answers at this endpoint: all its answers have ETags"
            raise read_failure("the response has no version of it", hint, key, self._url)
        return version

    def _opened(self, key: str) -> GetResult | None:
        """The response to a request without a range, whose body is not read; None if the key is absent."""
        try:
            return obstore.get(self._reader, self._below + key)
        except Exception as error:
            if meaning_of(error) == "absent":
                return None
            raise failure(error, "could not be read", key, self._url) from None

    def _range(self, request: RangeRequest) -> Answer:
        if request.length < 0:
            return self._tail(request)
        return self._get(request, {"range": (request.start, min(request.start + request.length, _LAST_BYTE))})

    def _tail(self, request: RangeRequest) -> Answer:
        """All bytes from an offset on: in one request if they are no more than the limit, else in parts of one version."""
        for _ in attempts(READS):
            first = self._range(request._replace(length=self._limit))
            if first.state != "found":
                return first
            length = first.size - request.start
            self._check_length(length, self._most_bytes(request), request.key)
            if len(first.data) < min(length, self._limit):
                continue  # it had no such bytes, and was replaced before it was looked up
            if length <= self._limit:
                return first
            whole = empty_buffer(length)
            whole[: self._limit] = np.frombuffer(first.data, np.uint8)
            for at in range(self._limit, length, self._limit):
                count = min(self._limit, length - at)
                part = self._range(RangeRequest(request.key, request.start + at, count, first.version))
                if part.state != "found" or len(part.data) != count:
                    break
                whole[at : at + count] = np.frombuffer(part.data, np.uint8)
            else:
                return first._replace(data=whole.data)
            if request.expect is not None:
                break
        return CHANGED_ANSWER

    def _last(self, request: RangeRequest, count: int) -> Answer:
        return self._get(request, {"range": {"suffix": count}})

    def _get(self, request: RangeRequest, options: Mapping[str, object]) -> Answer:
        if request.expect is not None and (condition := condition_of(request.expect)) is not None:
            options = {**options, "if_match": condition}
        lost: Exception = StoreError("")
        for _ in attempts(self._clients.backoff):
            try:
                result = obstore.get(self._reader, self._below + request.key, options=options or None)  # type: ignore[arg-type]
            except Exception as error:
                if not breaks_off(error):
                    return self._refused(error, request)
                lost = failure(error, "could not be read", request.key, self._url)
                continue
            try:
                answer = self._received(result, request)
            except Exception as error:
                # the body broke off; the client only repeats requests whose body has not begun
                if meaning_of(error) != "lost":
                    raise failure(error, "could not be read", request.key, self._url) from None
                lost = failure(error, "could not be read", request.key, self._url)
            else:
                if answer is not None:
                    self._clients.connection.answered_as_a_store = True
                    return answer
                lost = read_failure(SHORT, "check the server, and proxies before it", request.key, self._url)
        try:
            raise lost
        finally:
            del lost  # its traceback has this frame

    def _received(self, result: GetResult, request: RangeRequest) -> Answer | None:
        """None if the body has fewer bytes than its headers announce, or more."""
        meta = result.meta
        version = self._version(meta, request.key)
        if request.expect is not None and version != request.expect:
            return CHANGED_ANSWER
        first, last = result.range  # never more than requested: the client checks it
        if request.start < 0:
            self._check_length(last - first, None, request.key)
        data = _collected(result, last - first)
        if data is None:
            return None
        mark = None if request.length else result.attributes.get(MARK)
        return Answer("found", data, version, meta["size"], mark=mark)

    def _head(self, request: RangeRequest, refusal: Exception) -> Answer:
        """The look-up of an object whose first byte the server does not send. Whatever goes wrong, the object exists: so `refusal` is raised."""
        try:
            meta = obstore.head(self._reader, self._below + request.key)
        except MemoryError:
            raise
        except Exception:
            raise failure(refusal, "could not be read", request.key, self._url) from None
        return Answer("found", b"", self._version(meta, request.key), meta["size"])

    def _refused(self, error: Exception, request: RangeRequest) -> Answer:
        """The answer that an error stands for; else raises."""
        meaning = meaning_of(error)
        if meaning == "absent":
            self._clients.connection.answered_as_a_store = True
            return ABSENT_ANSWER
        if meaning == "changed" and request.expect is not None:
            return CHANGED_ANSWER
        if meaning == "range" and request.start == 0:  # as of every empty object
            result = self._opened(request.key)
            if result is None:
                return ABSENT_ANSWER
            version = self._version(result.meta, request.key)
            if request.expect not in {None, version} or result.meta["size"]:  # or replaced between the two requests
                return CHANGED_ANSWER
            return Answer("found", b"", version, 0, mark=result.attributes.get(MARK))
        if meaning == "range" or (meaning == "no suffix" and request.start < 0):
            return self._outside(request)
        if request.length == 0 and is_unreadable(error):
            return self._head(request, error)
        if is_of_a_store(error):
            self._clients.connection.answered_as_a_store = True
        raise failure(error, "could not be read", request.key, self._url) from None


def _collected(result: GetResult, count: int) -> bytes | memoryview | None:
    """The body of an answer that must have `count` bytes; None if it has another number. It is received piece by piece: GetResult.bytes() allocates whatever
    length the server announces, and accepts whatever it sends."""
    if count == 0:
        return b""
    pieces = iter(result.stream(min(count, _PIECE)))
    if count <= _PIECE:
        first = bytes(next(pieces, b""))
        return first if len(first) == count else None
    data, at = empty_buffer(count), 0
    for piece in pieces:
        end = at + len(piece)
        if end > count:
            return None
        data[at:end] = np.frombuffer(piece, np.uint8)
        at = end
        if at == count or not len(piece):
            break
    return data.data if at == count else None
