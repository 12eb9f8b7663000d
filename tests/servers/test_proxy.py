"""The fault proxy, between the standard library's client and a server that counts."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException, IncompleteRead
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit

import pytest
from tests.servers.proxy import FaultProxy, Request

BODY = b"0123456789" * 50_000


class Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    heard: list[tuple[str, str, bytes]]

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.heard.append((self.path, self.headers["Host"], body))
        self.send_response(200)
        if self.path == "/chunked":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for at in range(0, len(BODY), 100_000):
                self.wfile.write(b"%x\r\n%b\r\n" % (100_000, BODY[at : at + 100_000]))
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.send_header("Content-Length", str(len(BODY)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(BODY)

    do_PUT = do_HEAD = do_GET

    def log_message(self, *words: object) -> None: ...


@pytest.fixture
def heard() -> list[tuple[str, str, bytes]]:
    return []


@pytest.fixture
def proxy(heard: list[tuple[str, str, bytes]]) -> Iterator[FaultProxy]:
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Echo,), {"heard": heard})) as server:
        serving = Thread(target=server.serve_forever, args=(0.02,))
        serving.start()
        with FaultProxy(f"http://127.0.0.1:{server.server_address[1]}/base") as proxy:
            yield proxy
        server.shutdown()
        serving.join()


def ask(proxy: FaultProxy, *calls: tuple[str, str, bytes | None]) -> list[tuple[int, bytes]]:
    """Over one connection."""
    connection = HTTPConnection(urlsplit(proxy.url).netloc, timeout=60)
    try:
        answers = []
        for method, path, body in calls:
            connection.request(method, path, body)
            answer = connection.getresponse()
            answers.append((answer.status, answer.read()))
        return answers
    finally:
        connection.close()


def test_requests_without_faults_pass(proxy: FaultProxy, heard: list[tuple[str, str, bytes]]) -> None:
    data = b"x" * 1_000_000
    assert proxy.url.endswith("/base")
    calls = [("PUT", "/a?b=c", data), ("GET", "/chunked", None), ("HEAD", "/h", None), ("GET", "/", None)]
    assert ask(proxy, *calls) == [(200, BODY), (200, BODY), (200, b""), (200, BODY)]
    host = urlsplit(proxy.url).netloc
    assert heard == [("/a?b=c", host, data), ("/chunked", host, b""), ("/h", host, b""), ("/", host, b"")]
    assert [(request.method, request.path) for request in proxy.requests] == [call[:2] for call in calls]
    assert proxy.requests[0].headers["content-length"] == "1000000"
    assert (
        len(proxy.requests_matching("PUT b="))
        == 1
        == len(proxy.requests_matching(lambda request: request.method == "HEAD"))
    )


def test_lost_answers_were_heard(proxy: FaultProxy, heard: list[tuple[str, str, bytes]]) -> None:
    proxy.fail("PUT a$", "lost answer")
    ask(proxy, ("PUT", "/b", b"1"), ("GET", "/a", None))
    with pytest.raises((HTTPException, ConnectionError)):
        ask(proxy, ("PUT", "/a", b"2"))
    assert [path for path, _, _ in heard] == ["/b", "/a", "/a"]
    assert ask(proxy, ("PUT", "/a", b"3"))[0][0] == 200, "once is enough"


def test_unsent_requests(proxy: FaultProxy, heard: list[tuple[str, str, bytes]]) -> None:
    proxy.fail(lambda request: request.method == "PUT", "no answer", times=2)
    for _ in range(2):
        with pytest.raises((HTTPException, ConnectionError)):
            ask(proxy, ("PUT", "/a", b"2"))
    proxy.fail("GET a", "503", times=None)
    answers = ask(proxy, ("GET", "/a", b"body"), ("GET", "/a", None), ("GET", "/b", None))
    assert [status for status, _ in answers] == [503, 503, 200]
    assert b"SlowDown" in answers[0][1]
    proxy.mend()
    proxy.fail("HEAD .", "403")
    assert [status for status, _ in ask(proxy, ("HEAD", "/c", None), ("GET", "/a", None))] == [403, 200]
    assert [path for path, _, _ in heard] == ["/b", "/a"]


def test_stalls_last_until_the_client_goes(proxy: FaultProxy, heard: list[tuple[str, str, bytes]]) -> None:
    proxy.fail("GET .", "stall")
    connection = HTTPConnection(urlsplit(proxy.url).netloc, timeout=0.2)
    connection.request("GET", "/a")
    with pytest.raises(TimeoutError):
        connection.getresponse()
    connection.close()
    assert heard == []
    assert ask(proxy, ("GET", "/a", None)) == [(200, BODY)]


@pytest.mark.parametrize("path", ["/a", "/chunked"])
def test_cut_bodies(proxy: FaultProxy, path: str) -> None:
    proxy.fail("GET .", "cut body")
    with pytest.raises(IncompleteRead):
        ask(proxy, ("GET", path, None))


def test_wrong_lengths(proxy: FaultProxy) -> None:
    proxy.fail("GET .", "wrong length")
    assert ask(proxy, ("GET", "/a", None), ("GET", "/b", None)) == [(200, BODY[:-1]), (200, BODY)]
    proxy.fail("GET .", "wrong length")
    assert ask(proxy, ("GET", "/chunked", None), ("GET", "/chunked", None)) == [(200, BODY[:-1]), (200, BODY)]
    proxy.fail("HEAD .", "wrong length")
    connection = HTTPConnection(urlsplit(proxy.url).netloc, timeout=60)
    connection.request("HEAD", "/a")
    with connection.getresponse() as answer:
        assert answer.headers["Content-Length"] == f"{len(BODY) - 1}"
    connection.close()


def test_a_missing_server(proxy: FaultProxy) -> None:
    with FaultProxy("http://127.0.0.1:1") as nowhere, pytest.raises((HTTPException, ConnectionError)):
        ask(nowhere, ("GET", "/", None))


def test_names_of_faults() -> None:
    with FaultProxy("http://127.0.0.1:1") as proxy, pytest.raises(AssertionError):
        proxy.fail("GET .", "lost answers")
    assert Request("GET", "/", {}).headers == {}
