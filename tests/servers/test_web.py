"""The web server of the tests, with the standard library's client."""

from __future__ import annotations

import os
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.servers.web import WebServer

BODY = bytes(range(200))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a b").write_bytes(BODY)
    (tmp_path / "empty").write_bytes(b"")
    return tmp_path


def ask(url: str, path: str, method: str = "GET", **headers: str) -> tuple[HTTPResponse, bytes]:
    connection = HTTPConnection(urlsplit(url).netloc, timeout=60)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize(
    "requested, status, body",
    [
        ("bytes=0-0", 206, BODY[:1]),
        ("bytes=10-19", 206, BODY[10:20]),
        ("bytes=190-", 206, BODY[190:]),
        ("bytes=190-999", 206, BODY[190:]),
        ("bytes=-5", 206, BODY[-5:]),
        ("bytes=-999", 206, BODY),
        ("bytes=200-", 416, b""),
        ("bytes=-0", 416, b""),
        ("bytes=9-3", 200, BODY),
        ("bytes=1-2,4-5", 200, BODY),
        ("lines=1-2", 200, BODY),
    ],
)
def test_ranges(web_server: WebServer, folder: Path, requested: str, status: int, body: bytes) -> None:
    with web_server(folder) as url:
        answer, got = ask(url, "/in/a%20b", Range=requested)
        assert (answer.status, got) == (status, body)
        if status == 206:
            first = BODY.index(body)
            assert answer.headers["Content-Range"] == f"bytes {first}-{first + len(body) - 1}/200"
        answer, got = ask(url, "/in/a%20b", "HEAD", Range=requested)
        assert (answer.status, answer.headers["Content-Length"], got) == (status, str(len(body)), b"")


def test_the_server_can_ignore_or_refuse_ranges(web_server: WebServer, folder: Path) -> None:
    def statuses(url: str) -> list[int]:
        return [ask(url, "/in/a%20b", Range=requested)[0].status for requested in ("bytes=-5", "bytes=3-4")]

    with web_server(folder, suffix=False) as url:
        assert statuses(url) == [416, 206]
    with web_server(folder, suffix="ignored") as url:
        assert statuses(url) == [200, 206]
    with web_server(folder, ranges=False) as url:
        assert statuses(url) == [200, 200]


def test_etags(web_server: WebServer, folder: Path) -> None:
    with web_server(folder) as url:
        etag = ask(url, "/in/a%20b", "HEAD")[0].headers["ETag"]
        assert ask(url, "/in/a%20b", If_Match=etag)[1] == BODY
        assert ask(url, "/in/a%20b", If_None_Match=etag)[0].status == 304
        (folder / "new").write_bytes(BODY)
        os.replace(folder / "new", folder / "in/a b")
        assert ask(url, "/in/a%20b", If_Match=etag, Range="bytes=0-1")[0].status == 412
        assert ask(url, "/in/a%20b", If_Match=f'"other", {ask(url, "/in/a%20b")[0].headers["ETag"]}')[0].status == 200


def test_a_folder_is_redirected(web_server: WebServer, folder: Path) -> None:
    with web_server(folder) as url:
        found = ask(url, "/in")[0]
    assert (found.status, found.getheader("Location")) == (301, "/in/")


@pytest.mark.parametrize("path", ["/", "/in/", "/none", "/../etc/passwd", "/%2e%2e/x"])
def test_paths_other_than_files(web_server: WebServer, folder: Path, path: str) -> None:
    (folder.parent / "x").write_bytes(b"")
    with web_server(folder) as url:
        assert ask(url, path)[0].status == 404
        assert ask(url, "/empty")[1] == b""


def test_connections_are_kept(web_server: WebServer, folder: Path) -> None:
    with web_server(folder) as url:
        connection = HTTPConnection(urlsplit(url).netloc, timeout=60)
        connection.request("GET", "/in/a%20b")
        connection.getresponse().read()
        socket = connection.sock
        connection.request("GET", "/none")
        assert connection.getresponse().read() == b""
        assert connection.sock is socket is not None
        connection.close()
