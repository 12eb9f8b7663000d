"""Reading one range of one file of a web server: the request, and what its response means. The counterpart of range_requests.py, which is for object stores.

Every length is compared with the requested one before a byte of the body is accepted. Connections and redirects are in web_client.py."""

from __future__ import annotations

import re
from errno import ECONNRESET, EPROTO
from typing import TYPE_CHECKING, Final

from frazil.errors import StoreError
from frazil.stores.objects.client_errors import read_failure, status_failure
from frazil.stores.objects.range_requests import (
    ABSENT_ANSWER,
    CHANGED_ANSWER,
    SHORT,
    Answer,
    RangeReader,
    RangeRequest,
)
from frazil.stores.objects.versions import condition_of
from frazil.stores.objects.web_client import http_time
from frazil.stores.transfer.large_buffers import empty_buffer
from frazil.stores.values import Version, clip_span

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frazil.stores.objects.web_client import WebAnswer, WebClient

_LAST_BYTE: Final = 2**63 - 1
_PIECE: Final = 2**22  # bytes by which the buffer of a body without a known length grows
_DISTINCT_AFTER: Final = 2  # after this many seconds a file's time of change, which servers report in whole seconds, belongs to one change only
_ENCODINGS: Final = frozenset({"gzip", "x-gzip", "deflate", "compress", "x-compress", "br", "zstd"})  # of HTTP
_NO_HEADS: Final = frozenset({405, 501})  # of servers that know GET alone
# "bytes 0--1/0" is what programs in Go answer for an empty file
_CONTENT_RANGE: Final = re.compile(r"bytes ([0-9]{1,18})-(-1|[0-9]{1,18})/([0-9]{1,18})")


def web_version(headers: Mapping[str, str], size: int) -> tuple[Version | None, bool]:
    """The version of a file: its strong ETag; else its time of change and the size in the head of the response (-1: none). And whether the next file may have
    it too (Fetched.version_may_repeat): times are whole seconds, so a time that is only just over, by the server's own clock, may belong to several changes.
    The strong ETags of nginx and WsgiDAV have no more than this time and the size, either."""
    tag = headers.get("etag")
    changed, now = http_time(headers.get("last-modified")), http_time(headers.get("date"))
    is_recent = now is None or (changed is not None and changed > now - _DISTINCT_AFTER)
    if tag is not None and tag and not tag.startswith("W/"):
        seconds = () if changed is None else (f"{int(changed):x}", f"{int(changed)}")
        return tag.encode(), is_recent and any(part in seconds for part in tag.strip('"').split("-"))
    if changed is None or changed <= 0:
        return None, False
    return f"{changed} {size}".encode(), is_recent


def _part_of(answer: WebAnswer) -> tuple[int, ...]:
    """The first and the last byte in a response with a range, and the size of the whole file."""
    content_range = _CONTENT_RANGE.fullmatch(answer.headers.get("content-range", "").strip())
    if content_range is None:
        raise StoreError("a part of the object came without saying which", errno=EPROTO)
    return tuple(map(int, content_range.groups()))


class WebReader(RangeReader):
    """Reads files through one client."""

    __slots__ = ("_client",)

    def __init__(self, client: WebClient, limit: int) -> None:
        """limit: bytes of a body without a known length, if the request has no length."""
        super().__init__(client.url, limit, suffixes=True)
        self._client = client

    def _range(self, request: RangeRequest) -> Answer:
        start, length = request.start, request.length
        if start == 0 and length < 0:
            return self._get(request, None)
        last = "" if length < 0 else f"{min(start + length, _LAST_BYTE) - 1}"
        return self._get(request, f"bytes={start}-{last}")

    def _last(self, request: RangeRequest, count: int) -> Answer:
        return self._get(request, f"bytes=-{count}")

    def _look_up(self, request: RangeRequest) -> Answer:
        def take(answer: WebAnswer) -> Answer | None:
            if answer.status in _NO_HEADS:
                return None
            refused = self._refusal(answer, request)
            if refused is not None:
                return refused
            if answer.length is None:  # generated while it is sent: only the headers of a range have its size
                return None
            return self._found(answer, request, b"", answer.length)

        return self._client.request("HEAD", request.key, {}, take) or self._client.request(
            "GET", request.key, {"Range": "bytes=0-0"}, lambda answer: self._look_up_by_get(answer, request)
        )

    def _look_up_by_get(self, answer: WebAnswer, request: RangeRequest) -> Answer:
        """The answer for an object from the headers of a range, or of the whole object."""
        status, length = answer.status, answer.length
        if status == 416:
            return self._found(answer, request, b"", 0)
        refused = self._refusal(answer, request)
        size = _part_of(answer)[2] if status == 206 else -1 if length is None else length
        return refused or self._found(answer, request, b"", size)

    def _get(self, request: RangeRequest, ranged: str | None) -> Answer:
        headers = {} if ranged is None else {"Range": ranged}
        if request.expect is not None and (condition := condition_of(request.expect)) is not None:
            headers["If-Match"] = condition

        def take(answer: WebAnswer) -> Answer | None:
            status = answer.status
            if status == 416 and ranged is not None:
                return None
            refused = self._refusal(answer, request)
            if refused is not None:
                return refused
            return self._part(answer, request, ranged is not None) if status == 206 else self._cut(answer, request)

        return self._client.request("GET", request.key, headers, take) or self._outside(request)

    def _refusal(self, answer: WebAnswer, request: RangeRequest) -> Answer | None:
        """The answer for a status without bytes; None for a status with bytes."""
        status = answer.status
        kind = answer.headers.get("content-type", "")
        if status in {404, 410} or (status == 200 and answer.in_folder and kind.startswith("text/html")):
            return ABSENT_ANSWER
        if status == 412 and request.expect is not None:
            return CHANGED_ANSWER
        if status in {200, 206}:
            self._check_encoding(answer, request)
            return None
        raise status_failure(status, request.key, self._url)

    def _check_encoding(self, answer: WebAnswer, request: RangeRequest) -> None:
        """Raises StoreError for a body that is encoded, as it differs from the object's bytes: every request refuses encodings. Values that are no encodings,
        which some servers keep from an upload, are ignored."""
        named = answer.headers.get("content-encoding", "").lower().split(",")
        encoding = next((name.strip() for name in named if name.strip() in _ENCODINGS), None)
        if encoding is not None:
            reason = f"the server sends it encoded (Content-Encoding: {encoding}), which was not requested"
            hint = "let the server send the stored bytes, without a content encoding"
            raise read_failure(reason, hint, request.key, self._url)

    # --- bodies --------------------------------------------------------------------------------------------------------------------

    def _part(self, answer: WebAnswer, request: RangeRequest, ranged: bool) -> Answer:
        """From a response with a range: the requested one, and nothing else."""
        first, last, size = _part_of(answer)
        if not ranged:
            expected = (0, size)
        elif request.start < 0:
            expected = clip_span(request.start, -1, size)
        else:
            expected = clip_span(request.start, request.length, size)
        if (first, last + 1 - first) != expected:
            raise StoreError(f"bytes {first} to {last} of the object came, which were not requested", errno=EPROTO)
        if answer.length not in {None, expected[1]}:
            raise StoreError(SHORT, errno=ECONNRESET)
        return self._found(answer, request, self._body(answer, request, expected[1]), size)

    def _cut(self, answer: WebAnswer, request: RangeRequest) -> Answer:
        """From a response with the whole object: the requested range. Bytes before it are read and dropped, bytes after it are never read."""
        size = answer.length
        if size is None:
            return self._grown(answer, request)
        start, length = clip_span(request.start, request.length, size)
        if start > self._limit:
            # dropping that many bytes takes long, and a server that announces more bytes than the memory has is not believed
            self._check_length(size, None, request.key)
        if answer.skip(start) != start:
            raise StoreError(SHORT, errno=ECONNRESET)
        return self._found(answer, request, self._body(answer, request, length), size)

    def _body(self, answer: WebAnswer, request: RangeRequest, length: int) -> memoryview:
        """`length` bytes, which are no more than the caller wants."""
        if request.length < 0:
            self._check_length(length, self._most_bytes(request), request.key)
        data = empty_buffer(length).data
        if answer.fill(data) != length:
            raise StoreError(SHORT, errno=ECONNRESET)
        return data

    def _grown(self, answer: WebAnswer, request: RangeRequest) -> Answer:
        """_cut for a body without a known length."""
        start, length = request.start, request.length
        if start > 0 and answer.skip(start) != start:
            return self._found(answer, request, b"", -1)
        bounded = start >= 0 and length >= 0
        most = length if bounded else (self._most_bytes(request) or self._limit)
        pieces: list[bytes] = []
        count = 0
        while count < most + (not bounded):
            block = bytearray(min(_PIECE, most + (not bounded) - count))
            found = answer.fill(memoryview(block))
            pieces.append(bytes(block[:found]))
            count += found
            if found < len(block):
                break
        if not bounded:
            self._check_length(count, most, request.key)
        data = b"".join(pieces)
        if bounded:
            return self._found(answer, request, data, start + count if count < length else -1)
        size = max(start, 0) + len(data)  # the whole body was read
        begin, nbytes = clip_span(start, length, size) if start < 0 else (0, len(data))
        return self._found(answer, request, data[begin : begin + nbytes], size)

    def _found(self, answer: WebAnswer, request: RangeRequest, data: memoryview | bytes, size: int) -> Answer:
        # not by how far this body was read
        web_size = -1 if answer.status == 200 and answer.length is None else size
        version, version_may_repeat = web_version(answer.headers, web_size)
        if request.expect is not None and version != request.expect:
            return CHANGED_ANSWER
        return Answer("found", data, version, size, version_may_repeat)
