"""Parses HTTP requests and makes their answers: pure, from method, target, headers, size and ETag to a value (RFC 9110).

Not here: sockets, stores and bytes of values (server.py, values.py)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import unquote_to_bytes

from frazil.base.record import Record
from frazil.errors import InvalidInputError
from frazil.operations.serve.served_keys import is_served
from frazil.stores.keys.names import check_key

Header = tuple[str, str]
Span = tuple[int, int]  # start, length

LONGEST_TARGET: Final = 8192  # characters; keys are shorter
_LARGEST: Final = 10**18  # larger positions are replaced by it: no object is that large, and numbers stay below 64 bits
_METHODS: Final = "GET, HEAD, OPTIONS"

_TARGET: Final = re.compile(r"[!-~]*")
_SCHEME: Final = re.compile(r"https?://[^/?]*", re.IGNORECASE)
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")
_LENGTH: Final = re.compile(r"[0-9]{1,18}")
_FRAMING: Final = ("content-length", "transfer-encoding")
_MISSPELT: Final = 2  # wrong letters up to which a name counts as a framing header
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_RANGE: Final = re.compile(r"([0-9]*)-([0-9]*)")
_TAG: Final = re.compile(r'(W/)?("[!#-~\x80-\xff]*")')
_DOCUMENTS: Final = frozenset({".zarray", ".zgroup", ".zattrs", ".zmetadata"})

_EVERYWHERE: Final[tuple[Header, ...]] = (
    ("X-Content-Type-Options", "nosniff"),  # files of a store are never scripts of this server
)
_OWN_PAGES: Final[tuple[Header, ...]] = (("Cross-Origin-Resource-Policy", "same-origin"),)
_SHARED: Final[tuple[Header, ...]] = (
    ("Access-Control-Expose-Headers", "Accept-Ranges, Content-Length, Content-Range, ETag"),
)
_PREFLIGHT: Final[tuple[Header, ...]] = (
    ("Access-Control-Allow-Methods", _METHODS),
    ("Access-Control-Allow-Headers", "Range, If-Match, If-None-Match, If-Range"),
    ("Access-Control-Max-Age", "86400"),
)


class ByteRange(Record):
    """One requested range. (first, last): both included; (first, None): up to the end; (None, n): the last n; (None, None): invalid."""

    first: int | None
    last: int | None


class Request(Record):
    """A request for a value, or for a page. key: without the served prefix; of a page "" or ending in "/". Conditions are texts of headers, None for missing
    ones."""

    head: bool
    key: str
    page: bool
    range: ByteRange | None
    if_match: str | None
    if_none_match: str | None
    if_range: str | None

    @property
    def is_conditional(self) -> bool:
        return not (self.if_match is None and self.if_none_match is None and self.if_range is None)


class Answer(Record):
    """status and headers, followed by `text`, or by the part `span` of the value, or by nothing."""

    status: int
    headers: tuple[Header, ...]
    text: bytes = b""
    span: Span | None = None


# --- requests ------------------------------------------------------------------------------------------------------------------------


def read_request(
    method: str,
    target: str,
    headers: Iterable[Header],
    *,
    needs_host: bool = True,
    is_own: Callable[[str], bool] = lambda _: True,
) -> Request | Answer:
    """The request; or its answer, if the answer needs no value.

    target      as in the request line;  needs_host: whether the request must name its host, as required in HTTP/1.1
    is_own      whether a host, as in the header Host, is one of this server's: a page with another name that resolves to this machine must not read it (DNS
                rebinding)"""
    pairs = [(name.lower(), value) for name, value in headers]
    fields: dict[str, str] = {}
    for name, value in pairs:
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    hosts = [value for name, value in pairs if name == "host"]
    if len(hosts) > 1 or (needs_host and not hosts):
        return refusal(400, "a request names one host")
    if (reason := _body_reason(pairs)) is not None:
        return refusal(400, reason)
    authority = _SCHEME.match(target)
    if not all(is_own(host) for host in [*hosts, *([authority[0].partition("://")[2]] if authority else [])]):
        return refusal(421, "the host is not a name of this server; frazil serve --host-name allows names")
    if method == "OPTIONS":
        return Answer(204, (*_EVERYWHERE, ("Allow", _METHODS)))
    if method not in {"GET", "HEAD"}:
        return refusal(405, "this server can only be read", ("Allow", _METHODS))
    key = _key(target)
    if isinstance(key, Answer):
        return key
    page = key == "" or key.endswith("/")
    if not page and not is_served(key):
        return not_found()
    if page and "text/html" not in fields.get("accept", "").lower():
        return not_found()
    range_field = None if method == "HEAD" or page else fields.get("range")  # only GET has ranges
    return Request(
        method == "HEAD",
        key,
        page,
        None if range_field is None else parse_range(range_field),
        fields.get("if-match"),
        fields.get("if-none-match"),
        fields.get("if-range"),
    )


def _body_reason(headers: Sequence[Header]) -> str | None:
    """Why the end of the request is ambiguous; None if it is clear (RFC 9112, 6.3). A proxy could assume another end."""
    lengths = [value for name, value in headers if name == "content-length"]
    codings = [value for name, value in headers if name == "transfer-encoding"]
    for name, value in headers:
        if _TOKEN.fullmatch(name) is None or "\n" in value or "\r" in value:
            return "a header is malformed"
        if name not in _FRAMING and _is_misspelt(name):
            return f"the header {name!r} is misspelt"
    if len(lengths) > 1 or any(_LENGTH.fullmatch(value) is None for value in lengths):
        return "Content-Length is one number"
    if len(codings) > 1 or any(value.lower() != "chunked" for value in codings):
        return "Transfer-Encoding is chunked, or left out"
    if lengths and codings:
        return "a request has Content-Length or Transfer-Encoding"
    return None


@lru_cache(256)
def _is_misspelt(name: str) -> bool:
    """Whether a name is one of the two headers that determine the end of a request, apart from signs between the letters and up to two wrong, missing or
    additional letters. Names that begin with "x-" are extensions."""
    if name.startswith("x-"):
        return False
    letters = _letters(name)
    return any(_is_similar(letters, _letters(framing_header)) for framing_header in _FRAMING)


def _letters(name: str) -> str:
    return "".join(letter for letter in name if letter.isalpha())


def _is_similar(text: str, expected: str) -> bool:
    """Whether at most two letters must be replaced, inserted or removed to convert one text to the other."""
    if abs(len(text) - len(expected)) > _MISSPELT:
        return False
    row = list(range(len(expected) + 1))
    for i, letter in enumerate(text):
        last, row = row, [i + 1]
        for j, other in enumerate(expected):
            row.append(min(last[j] + (letter != other), last[j + 1] + 1, row[j] + 1))
    return row[-1] <= _MISSPELT


def _key(target: str) -> str | Answer:
    """The key that a target names ("" or ending in "/" for a page); or the refusal of an invalid target."""
    if len(target) > LONGEST_TARGET:
        return refusal(414, "the address is too long")
    if not _TARGET.fullmatch(target):
        return refusal(400, "the address has a character that must be percent-encoded")
    scheme = _SCHEME.match(target)  # the whole address, as in requests to proxies
    path = (target[scheme.end() :] or "/") if scheme else target
    path = path.partition("?")[0]
    if not path.startswith("/"):
        return refusal(400, "the address has no path")
    if _BAD_ESCAPE.search(path):
        return refusal(400, "a percent sign is not followed by two hexadecimal digits")
    try:
        key = unquote_to_bytes(path[1:]).decode()
    except UnicodeDecodeError:
        return refusal(400, "the address is not UTF-8")
    parts = key.split("/")
    if "\0" in key or "." in parts or ".." in parts:
        return refusal(400, "the address is not a key of a store")
    try:
        if key.removesuffix("/"):
            check_key(key.removesuffix("/"))
    except InvalidInputError:
        return not_found()  # no key has an empty component
    return not_found() if key == "/" else key


def parse_range(text: str) -> ByteRange | None:
    """The range of a Range header; None if the header may be ignored: for other units, and for several ranges, for which the whole value may be sent."""
    unit, mark, ranges = text.partition("=")
    if not mark or unit.strip(" \t").lower() != "bytes":
        return None
    parts = [part.strip(" \t") for part in ranges.split(",")]
    found = [_one_range(part) for part in parts if part]
    if not found or ByteRange(None, None) in found:
        return ByteRange(None, None)
    return found[0] if len(found) == 1 else None


def _one_range(text: str) -> ByteRange:
    match = _RANGE.fullmatch(text)
    if match is None:
        return ByteRange(None, None)
    first, last = map(_number, match.groups())
    if first is not None and last is not None and last < first:
        return ByteRange(None, None)
    return ByteRange(first, last)


def _number(digits: str) -> int | None:
    """Digits as a number, at most _LARGEST; None without any."""
    if not digits:
        return None
    digits = digits.lstrip("0") or "0"
    return min(int(digits), _LARGEST) if len(digits) <= 19 else _LARGEST


def resolve_range(byte_range: ByteRange, size: int) -> Span | None:
    """(start, length) of a range in a value of `size` bytes; None if it has none of the bytes. Every suffix of an empty value is the whole value."""
    first, last = byte_range
    if first is None:
        return None if not last else (max(size - last, 0), min(last, size))
    if first >= size:
        return None
    return first, (size if last is None else min(last + 1, size)) - first


def speculative_span(request: Request, most: int) -> Span | None:
    """The part of the value to request together with its size, (start, length) as in stores, of at most `most` bytes; None if the size must be known first."""
    if request.head or request.page or request.is_conditional:
        return None
    if request.range is None:
        return 0, most
    first, last = request.range
    if first is not None:
        return first, most if last is None else min(last - first + 1, most)
    return (-last, last) if last and last <= most else None


def with_cors(answer: Answer, origin: str | None, allowed: Collection[str]) -> Answer:
    """The answer, with the headers that allow the page of an origin to read it, if the user allows this (CORS); "*" allows all. Without them, pages of other
    servers cannot even show it."""
    if not allowed:
        return answer._replace(headers=(*answer.headers, *_OWN_PAGES))
    varies = tuple(value for name, value in answer.headers if name == "Vary")
    headers = tuple(header for header in answer.headers if header[0] != "Vary")
    vary = (
        ()
        if "*" in allowed and not varies
        else (("Vary", ", ".join([*varies, *(() if "*" in allowed else ["Origin"])])),)
    )
    if "*" not in allowed and (origin is None or origin not in allowed):
        return answer._replace(headers=(*headers, *vary, *_OWN_PAGES))
    leave = ("Access-Control-Allow-Origin", "*" if "*" in allowed else origin or "")
    more = _PREFLIGHT if answer.status == 204 else ()
    return answer._replace(headers=(*headers, *vary, leave, *_SHARED, *more))


# --- answers -------------------------------------------------------------------------------------------------------------------------


def answer_value(request: Request, size: int, etag: str | None) -> Answer:
    """The answer for a value of `size` bytes. etag: with its quotes; None if no reliable version is known."""
    headers = (*_EVERYWHERE, ("Accept-Ranges", "bytes"), ("Cache-Control", "no-cache"))
    if etag is not None:
        headers = (*headers, ("ETag", etag))
    if request.if_match is not None and not _matches(request.if_match, etag, strong=True):
        return refusal(412, "the value has changed", *headers[len(_EVERYWHERE) :])
    if request.if_none_match is not None and _matches(request.if_none_match, etag, strong=False):
        return Answer(304, headers)
    byte_range = request.range
    if request.if_range is not None and not _is_tag(request.if_range, etag):
        byte_range = None
    headers = (*headers, ("Content-Type", content_type(request.key)))
    if byte_range is None or (size == 0 and byte_range.first is None and byte_range.last):
        return Answer(200, (*headers, ("Content-Length", str(size))), span=(0, size))
    span = resolve_range(byte_range, size)
    if span is None:
        return refusal(416, "the value has no such bytes", ("Content-Range", f"bytes */{size}"))
    start, length = span
    ranged = (("Content-Range", f"bytes {start}-{start + length - 1}/{size}"), ("Content-Length", str(length)))
    return Answer(206, (*headers, *ranged), span=span)


def _matches(header: str, etag: str | None, *, strong: bool) -> bool:
    """Whether a list of ETags has that of an existing value. A strong comparison ignores weak ones."""
    if header.strip(" \t") == "*":
        return True
    return etag is not None and any(tag == etag and not (strong and weak) for weak, tag in _TAG.findall(header))


def _is_tag(header: str, etag: str | None) -> bool:
    """Whether If-Range names the value's version. A date never does: values have no dates here."""
    return etag is not None and header.strip(" \t") == etag


def content_type(key: str) -> str:
    """JSON for the documents of Zarr, bytes for everything else."""
    name = key.rpartition("/")[2]
    return "application/json" if name.endswith(".json") or name in _DOCUMENTS else "application/octet-stream"


def answer_page(html: bytes) -> Answer:
    """A page for browsers. It runs no scripts and loads nothing."""
    headers = (
        ("Content-Type", "text/html; charset=utf-8"),
        ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'"),
        ("Cache-Control", "no-cache"),
        ("Vary", "Accept"),
        ("Content-Length", str(len(html))),
    )
    return Answer(200, (*_EVERYWHERE, *headers), html)


def refusal(status: int, reason: str, *headers: Header) -> Answer:
    """An answer in one line of text."""
    text = f"{reason}\n".encode()
    kind = (("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(text))))
    return Answer(status, (*_EVERYWHERE, *headers, *kind), text)


def not_found() -> Answer:
    """The answer for a key without a value."""
    return refusal(404, "nothing is here", ("Cache-Control", "no-cache"))
