"""Requests and answers without a server: requested keys, ranges against slicing, conditions, bad addresses."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.operations.serve.requests import (
    Answer,
    ByteRange,
    Request,
    answer_page,
    answer_value,
    content_type,
    parse_range,
    read_request,
    resolve_range,
    speculative_span,
    with_cors,
)
from frazil.stores.keys.names import check_key
from frazil.stores.values import clip_span

HOST = ("Host", "127.0.0.1:8000")
TAG = '"a1b2"'
COMPONENTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=8).filter(
    lambda part: not part.startswith(".")
)
KEYS = st.lists(COMPONENTS, max_size=3).map(lambda parts: "/".join([*parts, "zarr.json"]))
SIZES = st.integers(0, 300)


def ask(method: str, target: str, **headers: str) -> Request | Answer:
    return read_request(method, target, [HOST, *((name.replace("_", "-"), text) for name, text in headers.items())])


def parsed(method: str = "GET", target: str = "/c/0", **headers: str) -> Request:
    request = ask(method, target, **headers)
    assert isinstance(request, Request)
    return request


def status(method: str, target: str, **headers: str) -> int:
    answer = ask(method, target, **headers)
    assert isinstance(answer, Answer)
    return answer.status


# --- addresses -----------------------------------------------------------------------------------------------------------------------


@given(
    KEYS, st.sampled_from(["", "http://127.0.0.1:8000", "HTTPS://example.org"]), st.sampled_from(["", "?", "?a=/../b"])
)
def test_every_key_can_be_requested(key: str, host: str, query: str) -> None:
    request = ask("GET", f"{host}/{quote(key)}{query}")
    assert isinstance(request, Request)
    assert request.key == key
    assert not request.page


@given(st.text(st.characters(min_codepoint=1, max_codepoint=255), max_size=30))
def test_an_address_is_a_key_or_refused(text: str) -> None:
    request = ask("GET", f"/{text}", Accept="text/html")
    if isinstance(request, Answer):
        assert request.status in {400, 404}
    elif request.page:
        assert request.key == "" or request.key.endswith("/")
    else:
        check_key(request.key)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/../secret", 400),
        ("/a/../b", 400),
        ("/%2e%2E/secret", 400),
        ("/a%2f..%2f..%2fsecret", 400),
        ("/./a", 400),
        ("/a%00b", 400),
        ("/a%zz", 400),
        ("/a%2", 400),
        ("/%ff%fe", 400),
        ("/%ed%a0%80", 400),  # a lone surrogate
        ("/a\x7f", 400),
        ("/\xe9", 400),
        ("a", 400),
        ("*", 400),
        ("", 400),
        ("//a", 404),
        ("/a//b", 404),
        ("/a/", 404),
        ("/", 404),
        ("http://127.0.0.1", 404),
        ("/" + "a" * 9000, 414),
    ],
)
def test_bad_addresses(target: str, expected: int) -> None:
    assert status("GET", target) == status("HEAD", target) == expected


def test_html_pages_are_served_for_paths_without_keys() -> None:
    for target, key in (("/", ""), ("/a/b/", "a/b/"), ("http://x", "")):
        request = parsed(target=target, Accept="text/html,*/*")
        assert (request.page, request.key, speculative_span(request, 100)) == (True, key, None)
    assert not parsed(target="/zarr.json", Accept="text/html").page
    assert status("GET", "//", Accept="text/html") == 404


def test_methods() -> None:
    assert parsed("HEAD").head
    for method in ("PUT", "POST", "DELETE", "PATCH", "TRACE", "CONNECT", "get", ""):
        answer = ask(method, "/c/0")
        assert isinstance(answer, Answer)
        assert answer.status == 405
        assert dict(answer.headers)["Allow"] == "GET, HEAD, OPTIONS"
    for target in ("*", "/c/0", "/../x"):
        answer = ask("OPTIONS", target)
        assert isinstance(answer, Answer)
        fields = dict(answer.headers)
        assert (answer.status, fields["Allow"]) == (204, "GET, HEAD, OPTIONS")
        assert not [name for name in fields if name.startswith("Access-Control")]


def test_a_request_names_one_host() -> None:
    assert isinstance(read_request("GET", "/c/0", [], needs_host=False), Request)
    for headers in ([], [HOST, HOST]):
        answer = read_request("GET", "/c/0", headers)
        assert isinstance(answer, Answer)
        assert answer.status == 400


# --- ranges --------------------------------------------------------------------------------------------------------------------------


@given(SIZES, st.integers(0, 400), st.integers(0, 400) | st.none())
def test_ranges_are_slices(size: int, first: int, length: int | None) -> None:
    value = bytes(i % 251 for i in range(size))
    last = None if length is None else first + length
    asked_for = parse_range(f"bytes={first}-{'' if last is None else last}")
    assert asked_for == ByteRange(first, last)
    span = resolve_range(asked_for, size)
    expected = value[first:] if last is None else value[first : last + 1]
    assert (b"" if span is None else value[span[0] : span[0] + span[1]]) == expected
    assert (span is None) == (first >= size)


@given(SIZES, st.integers(0, 400))
def test_suffixes_are_slices(size: int, count: int) -> None:
    value = bytes(i % 251 for i in range(size))
    asked_for = parse_range(f"bytes=-{count}")
    assert asked_for == ByteRange(None, count)
    span = resolve_range(asked_for, size)
    assert (None if span is None else value[span[0] : span[0] + span[1]]) == (value[-count:] if count else None)


@given(SIZES, st.integers(0, 400) | st.none(), st.integers(0, 400) | st.none(), st.integers(1, 64))
def test_prefetched_bytes_begin_the_answer(size: int, first: int | None, last: int | None, most: int) -> None:
    text = (
        {}
        if first is None and last is None
        else {"Range": f"bytes={'' if first is None else first}-{'' if last is None else last}"}
    )
    request = parsed(**text)
    span, ahead = answer_value(request, size, TAG).span, speculative_span(request, most)
    if ahead is not None:
        start, length = clip_span(*ahead, size)
        assert length <= most
        if span is not None and span[1] > 0:
            assert (start, length) == (span[0], min(span[1], most))


@pytest.mark.parametrize("text", ["bytes=", "bytes=-", "bytes=a-b", "bytes=5-2", "bytes=1-2-3", "bytes=--1", "bytes=+1-2", "bytes=1", "bytes=٣-٤", "bytes=0-1,x"])  # fmt: skip
def test_invalid_ranges_are_refused(text: str) -> None:
    answer = answer_value(parsed(Range=text), 10, TAG)
    assert (answer.status, dict(answer.headers)["Content-Range"], answer.span) == (416, "bytes */10", None)


@pytest.mark.parametrize("text", ["chunks=0-5", "nonsense", "bytes 0-5", "bytes=0-1,3-4", "bytes=0-1, -2,"])
def test_ranges_that_are_ignored(text: str) -> None:
    answer = answer_value(parsed(Range=text), 10, TAG)
    assert (answer.status, answer.span) == (200, (0, 10))


@pytest.mark.parametrize(
    ("text", "span"),
    [
        (f"bytes=0-{'9' * 5000}", (0, 10)),
        (f"bytes=-{'9' * 5000}", (0, 10)),
        (f"bytes={'0' * 5000}7-", (7, 3)),
        (f"bytes={'9' * 5000}-", None),
        (f"bytes={2**64}-{2**65}", None),
        ("BYTES = 2-3 ,", (2, 2)),
    ],
)
def test_absurd_numbers(text: str, span: tuple[int, int] | None) -> None:
    request = parsed(Range=text)
    answer = answer_value(request, 10, TAG)
    assert (answer.status, answer.span) == (416 if span is None else 206, span)
    ahead = speculative_span(request, 1000)
    assert ahead is None or -(2**62) < ahead[0] < 2**62


@given(SIZES, SIZES)
def test_headers_of_the_answer(size: int, first: int) -> None:
    answer = answer_value(parsed(Range=f"bytes={first}-"), size, TAG)
    fields = dict(answer.headers)
    if answer.span is None:
        assert (answer.status, fields["Content-Length"]) == (416, str(len(answer.text)))
    else:
        start, length = answer.span
        assert fields["Content-Length"] == str(length)
        assert fields["Content-Range"] == f"bytes {start}-{start + length - 1}/{size}"
    assert (fields["ETag"] if answer.status == 206 else TAG) == TAG
    fields = dict(with_cors(answer, "https://a", {"https://a"}).headers)
    assert fields["Access-Control-Allow-Origin"] == "https://a"
    assert {"ETag", "Content-Range", "Accept-Ranges"} <= set(fields["Access-Control-Expose-Headers"].split(", "))


def test_an_empty_value() -> None:
    for text, expected in (("bytes=-5", 200), ("bytes=0-", 416), ("bytes=-0", 416)):
        answer = answer_value(parsed(Range=text), 0, TAG)
        assert answer.status == expected
        assert answer.span == ((0, 0) if expected == 200 else None)


def test_head_has_no_ranges() -> None:
    request = parsed("HEAD", Range="bytes=0-1")
    answer = answer_value(request, 10, TAG)
    assert (answer.status, dict(answer.headers)["Content-Length"]) == (200, "10")
    assert speculative_span(request, 100) is None


# --- conditions ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"If_None_Match": TAG}, 304),
        ({"If_None_Match": f"W/{TAG}"}, 304),
        ({"If_None_Match": f'"other", {TAG}'}, 304),
        ({"If_None_Match": "*"}, 304),
        ({"If_None_Match": '"other"'}, 200),
        ({"If_None_Match": "a1b2"}, 200),
        ({"If_None_Match": '"oth, ""a1b2'}, 200),
        ({"If_Match": TAG}, 200),
        ({"If_Match": "*"}, 200),
        ({"If_Match": f'"other",{TAG}'}, 200),
        ({"If_Match": f"W/{TAG}"}, 412),
        ({"If_Match": '"other"'}, 412),
        ({"If_Match": ""}, 412),
        ({"If_Match": '"other"', "If_None_Match": TAG}, 412),
        ({"If_Match": TAG, "If_None_Match": TAG}, 304),
        ({"Range": "bytes=1-2", "If_Range": TAG}, 206),
        ({"Range": "bytes=1-2", "If_Range": f"W/{TAG}"}, 200),
        ({"Range": "bytes=1-2", "If_Range": '"other"'}, 200),
        ({"Range": "bytes=99-", "If_Range": '"other"'}, 200),
        ({"Range": "bytes=1-2", "If_Range": "Sun, 22 Nov 2026 13:35:04 GMT"}, 200),
        ({"Range": "bytes=1-2", "If_Match": '"other"'}, 412),
        ({"Range": "bytes=99-", "If_None_Match": TAG}, 304),
    ],
    ids=str,
)
def test_conditions(headers: dict[str, str], expected: int) -> None:
    request = parsed(**headers)
    answer = answer_value(request, 10, TAG)
    assert answer.status == expected
    assert dict(answer.headers)["ETag"] == TAG
    assert speculative_span(request, 100) is None
    if expected == 304:
        assert (answer.span, answer.text) == (None, b"")


def test_without_a_version_nothing_is_taken_for_the_same() -> None:
    for headers, expected in (
        ({"If_None_Match": TAG}, 200),
        ({"If_None_Match": "*"}, 304),
        ({"If_Match": TAG}, 412),
        ({"If_Match": "*"}, 200),
        ({"Range": "bytes=1-2", "If_Range": TAG}, 200),
    ):
        answer = answer_value(parsed(**headers), 10, None)
        assert answer.status == expected
        assert "ETag" not in dict(answer.headers)


def test_headers_that_come_twice_are_one_list() -> None:
    request = read_request("GET", "/c/0", [HOST, ("if-none-match", '"x"'), ("If-None-Match", TAG)])
    assert isinstance(request, Request)
    assert answer_value(request, 10, TAG).status == 304


def test_requests_with_a_body() -> None:
    json, plain = "application/json", "application/octet-stream"
    kinds = {
        "zarr.json": json,
        "a/zarr.json": json,
        "a/.zattrs": json,
        "meta/a.array.json": json,
        "zarr": json[:0] + plain,
        "c/0/json": plain,
    }
    assert {key: content_type(key) for key in kinds} == kinds
    page = answer_page("<p>é".encode())
    assert dict(page.headers)["Content-Length"] == "5"


@pytest.mark.parametrize(
    "name",
    [
        "Contnet-Length", "Content-Lenght", "Content-Lengt", "Content-Length1", "Content_Length", "ContentLength", "Content-Length-", "Conent-Lenth", "Transfer-Encodin",
        "Transfer_Encoding", "Tranfser-Encoding", "Transfer-Encodings", "TransferEncoding", "Content-Length ", "Content Length", "Content-\tLength", "Content-1ength",
    ],
)  # fmt: skip
def test_misspelt_names_of_headers_that_say_where_a_request_ends(name: str) -> None:
    for value in ("5", "chunked"):
        answer = read_request("GET", "/zarr.json", [("Host", "x"), (name, value)])
        assert isinstance(answer, Answer)
        assert answer.status == 400


@pytest.mark.parametrize(
    "name",
    [
        "Content-Type", "Content-Range", "Content-Language", "Content-Encoding", "Accept-Encoding", "X-Content-Length", "Content-Location", "Content-Digest", "TE", "Trailer",
        "If-None-Match", "Authorization", "Cache-Control", "Sec-Fetch-Mode", "Accept-Language",
    ],
)  # fmt: skip
def test_other_names_of_headers(name: str) -> None:
    assert isinstance(read_request("GET", "/zarr.json", [("Host", "x"), (name, "a")]), Request)
