"""What a server refuses, what it survives, and its pages."""

from __future__ import annotations

import http.client
import re
import socket
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.operations.served import Client

import frazil
from frazil.errors import InvalidInputError
from frazil.operations.serve import values
from frazil.operations.serve.server import serve
from frazil.stores import MemoryStore, Store
from frazil.testing import CountingStore, Fault, FaultPlan, FaultyStore

# --- refusals ------------------------------------------------------------------------------------------------------------------------


def test_writing_methods_are_refused(served: tuple[Store, Client]) -> None:
    store, client = served
    before = store.list()
    for method in ("PUT", "POST", "DELETE", "PATCH", "NONSENSE"):
        reply = client.request("/zarr.json", method, body=b"x" * 300_000 if method == "PUT" else None)
        assert (reply.status, reply.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    assert client.request("/zarr.json").status == 200
    assert store.list() == before


def test_pages_of_other_origins_read_where_that_is_allowed(stores: dict[str, Store]) -> None:
    origin = "https://viewer.example.org"
    with serve(stores["local"], cors=[origin, "http://localhost:3000"]) as server:
        client = Client(server)
        for requested, allowed in ((origin, origin), ("http://localhost:3000", "http://localhost:3000"), ("https://evil.example.org", None), ("null", None)):  # fmt: skip
            before = client.request("/zarr.json", "OPTIONS", Origin=requested, Access_Control_Request_Headers="range")
            assert (before.status, before.body) == (204, b"")
            assert ("Range" in before.headers.get("access-control-allow-headers", "")) == (allowed is not None)
            for key in ("/zarr.json", "/nothing"):
                reply = client.request(key, Origin=requested)
                assert reply.headers.get("access-control-allow-origin") == allowed
                assert reply.headers["vary"] == "Origin"
                assert ("cross-origin-resource-policy" in reply.headers) == (allowed is None)
    with serve(stores["local"], cors="*") as server:
        assert Client(server).request("/zarr.json", Origin=origin).headers["access-control-allow-origin"] == "*"
    for wrong in ("viewer.example.org", "https://viewer.example.org/", ""):
        with pytest.raises(InvalidInputError, match="origin"):
            serve(stores["local"], cors=[wrong])


def test_without_leave_no_other_page_reads(served: tuple[Store, Client]) -> None:
    for method in ("GET", "OPTIONS"):
        reply = served[1].request("/zarr.json", method, Origin="https://example.org")
        assert not [name for name in reply.headers if name.startswith("access-control")]


def test_requests_for_other_hosts_are_refused(stores: dict[str, Store]) -> None:
    """A page whose name resolves to this server (DNS rebinding) sends that name."""
    with serve(stores["local"], host_names=["data.example.org", "other.example.org:99"]) as server:
        port = server.url.rstrip("/").rpartition(":")[2]
        client = Client(server)
        for host, status in (
            (f"127.0.0.1:{port}", 200),
            (f"localhost:{port}", 200),
            (f"LOCALHOST.:{port}", 200),
            (f"[::1]:{port}", 200),
            ("data.example.org", 200),
            ("data.example.org:1234", 200),
            ("other.example.org:99", 200),
            ("other.example.org", 421),
            ("evil.example.org", 421),
            (f"evil.example.org:{port}", 421),
            ("127.0.0.1", 421),
            ("127.0.0.1:1", 421),
            (f"127.0.0.2:{port}", 421),
            (f"localhost:{port}, evil", 421),
            ("", 421),
            (f"x@localhost:{port}", 421),
        ):
            for target in ("/zarr.json", "/", "/nothing"):
                reply = client.request(target, Host=host, Accept="text/html")
                assert (reply.status == 421) == (status == 421), host
                assert status == 200 or b"sea" not in reply.body
        assert client.request("http://evil.example.org/zarr.json").status == 421
        assert client.request("/zarr.json", "OPTIONS", Host="evil.example.org").status == 421
    with serve(stores["local"], host="0.0.0.0") as server:
        port = server.url.rstrip("/").rpartition(":")[2]
        for host, status in ((f"127.0.0.1:{port}", 200), (f"localhost:{port}", 200), (f"evil.example.org:{port}", 421)):
            assert Client(server).request("/zarr.json", Host=host).status == status
    with pytest.raises(InvalidInputError, match="host name"):
        serve(stores["local"], host_names=["a b"])


def test_other_files_of_a_folder_are_not_served(tmp_path: Path) -> None:
    frazil.create_array(tmp_path, data=[1, 2, 3])
    others = [".env", ".git/config", ".git/0", "notes.txt", "id_rsa", "c/secret", ".ssh/zarr.json", "backup.json"]
    for name in others:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("hidden")
    with serve(tmp_path) as server:
        client = Client(server)
        for name in others:
            for target in (f"/{name}", f"/./{name}", "/" + name.replace(".", "%2e")):
                for method in ("GET", "HEAD"):
                    reply = client.request(target, method)
                    assert reply.status in {400, 404}
                    assert b"hidden" not in reply.body
        assert client.request("/c/0").status == client.request("/zarr.json").status == 200
    (tmp_path / "zarr.json").unlink()
    with serve(tmp_path) as server:
        page = Client(server).request("/", Accept="text/html").body
        assert b'href="./c/"' in page
        assert not any(word in page for word in (b"env", b"git", b"notes", b"id_rsa", b"backup", b"ssh"))


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Length: 5\r\nContent-Length: 5", b"Content-Length: 0\r\nContent-Length: 5", b"Content-Length: +5", b"Content-Length: 5a", b"Content-Length: -1",
        b"Content-Length: 5, 5", b"Content-Length:", b"Content_Length: 5", b"ContentLength: 5", b"Content-Length : 5", b"Content-Length: 5\r\n 5",
        b"Transfer-Encoding: xchunked", b"Transfer-Encoding: chunked, chunked", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", b"Transfer_Encoding: chunked",
        b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding : chunked", b"Transfer-Encoding:\x0bchunked", b"Transfer-Encoding: chunked\r\nContent-Length: 5",
        b"no header at all", b"Two words: x",
    ],
)  # fmt: skip
def test_requests_with_an_ambiguous_end_are_refused(served: tuple[Store, Client], header: bytes) -> None:
    host, port = served[1].connection.host, served[1].connection.port
    second = b"GET /zarr.json HTTP/1.1\r\nHost: %b:%d\r\n\r\n" % (host.encode(), port)
    with socket.create_connection((host, port), timeout=60) as connection:
        connection.sendall(second.replace(b"\r\n\r\n", b"\r\n" + header + b"\r\n\r\n") + second)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while part := connection.recv(2**16):
            answer += part
    assert re.findall(rb"HTTP/1\.1 (\d+) ", answer) == [b"400"]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /zarr.json%00 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /zarr.json HTTP/1.1\r\n\r\n", 400),
        (b"GET /zarr.json HTTP/1.1\r\nHost: x\r\nRange: bytes=9-1\r\n\r\n", 416),
        (b"GET /" + b"a" * 300 + b"/c/0 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /" + b"a/" * 4000 + b"0 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
        (b"GET /" + b"a" * 900_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
        (b"GET /zarr.json HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 200 + b"\r\n", 431),
        (b"GET /zarr.json HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 70_000 + b"\r\n\r\n", 431),
        (b"GET /zarr.json HTTP/9.9\r\nHost: x\r\n\r\n", 505),
        (b"GET /zarr.json HTTP/0.9\r\n\r\n", 505),
        (b"PUT /zarr.json HTTP/0.0\r\nHost: x\r\n\r\n", 505),
        (b"GET /zarr.json NONSENSE\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),  # TLS
        (b"GET /zarr.json HTTP/1.1\r\nHost: x\r\nA: b\rContent-Length: 5\r\n\r\nhello", 400),
        (b"GET /zarr.json HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n", 400),
        (b"GET /zarr.json\rHTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /zarr.json HTTP/1.1\nHost: x\n\n", 200),
        (b"a b c d e\r\n\r\n", 400),
        (b"\r\n\r\n", None),
        (b"", None),
        (b"GET /zarr.json HT", 400),
        (b"GET /zarr.json\r\n\r\n", 200),
        (b"GET /zarr.json HTTP/1.0\r\n\r\n", 200),
        (b"GET http://x/zarr.json HTTP/1.1\r\nHost: x\r\n\r\n", 200),
        (b"PUT /zarr.json HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 405),
        (b"PUT /zarr.json HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n", 405),
        (b"GET /zarr.json HTTP/1.1\r\nHost: x\r\nContent-Length: 40\r\n\r\nDELETE /zarr.json HTTP/1.1\r\nHost: x\r\n\r\n", 200),
    ],
)  # fmt: skip
def test_malformed_requests_do_not_stop_the_server(sent: bytes, status: int | None, stores: dict[str, Store]) -> None:
    failures: list[str] = []
    with serve(stores["local"], host_names=["x"], tell=failures.append) as server:
        client = Client(server)
        connection = client.connection
        connection.connect()
        connection.sock.sendall(sent)
        connection.sock.shutdown(socket.SHUT_WR)
        answer = b""
        while part := connection.sock.recv(2**16):
            answer += part
        connection.close()
        if status is None:
            assert answer == b""
        else:
            assert re.findall(rb"HTTP/1\.1 (\d+) ", answer) == [str(status).encode()]
            assert b"Access-Control" not in answer
            assert b"root:" not in answer
        assert Client(server).request("/zarr.json").status == 200
    assert failures == []


@settings(max_examples=60)
@given(st.binary(max_size=60), st.sampled_from([b"", b"GET /", b"HEAD /zarr.json", b"GET / HTTP/1.1\r\nHost: x\r\n", b"GET /zarr.json HTTP/1.1\r\nHost: x\r\nRange: bytes="]), st.booleans())  # fmt: skip
def test_random_requests_are_harmless(served: tuple[Store, Client], sent: bytes, before: bytes, ends: bool) -> None:
    host, port = served[1].connection.host, served[1].connection.port
    with socket.create_connection((host, port), timeout=60) as connection:
        connection.sendall(before + sent + (b"\r\n\r\n" if ends else b""))
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while part := connection.recv(2**16):
                answer += part
        except ConnectionResetError:
            pass
    assert b"Traceback" not in answer
    assert answer == b"" or re.match(rb"HTTP/1\.1 (200|204|206|400|404|405|414|416|421|431|505) ", answer)


def test_links_out_of_the_folder_are_not_served(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("hidden")
    frazil.create_array(tmp_path / "a.zarr", data=[1, 2, 3])
    (tmp_path / "a.zarr" / "out").symlink_to(tmp_path / "secret")
    (tmp_path / "a.zarr" / "key").symlink_to(tmp_path / "secret" / "key")
    (tmp_path / "a.zarr" / "c" / "7").symlink_to(tmp_path / "secret" / "key")
    frazil.create_array(tmp_path / "other", data=[1, 2, 3])
    (tmp_path / "a.zarr" / "b").symlink_to(tmp_path / "other")
    failures: list[str] = []
    with serve(tmp_path / "a.zarr", tell=failures.append) as server:
        for target in ("/out/key", "/key", "/out/../secret/key", "/c/7", "/b/zarr.json", "/b/c/0", "/b/"):
            for method in ("GET", "HEAD"):
                reply = Client(server).request(target, method, Accept="text/html")
                assert reply.status in {400, 404}, target
                assert b"hidden" not in reply.body
    assert failures == []


def test_a_link_below_a_group_does_not_hide_the_group(tmp_path: Path) -> None:
    """The answer for the group was 404."""
    frazil.create_group(tmp_path / "a.zarr").create_array("x", data=[1, 2, 3])
    (tmp_path / "a.zarr" / "y").mkdir()
    (tmp_path / "a.zarr" / "y" / "zarr.json").symlink_to(tmp_path / "a.zarr" / "x" / "zarr.json")
    failures: list[str] = []
    with serve(tmp_path / "a.zarr", tell=failures.append) as server:
        assert Client(server).request("/zarr.json").body == (tmp_path / "a.zarr" / "zarr.json").read_bytes()
        assert Client(server).request("/y/zarr.json").status == 404
        assert failures == []
        assert Client(server).request("/", Accept="text/html").status == 500
        assert "y/zarr.json" in failures[0]


# --- failures ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["fail", "cut"])
def test_a_store_that_fails_is_no_missing_chunk(kind: str, stores: dict[str, Store]) -> None:
    failures: list[str] = []
    faulty = FaultyStore(stores["memory"], FaultPlan([Fault("fetch", 1 if kind == "fail" else 2, kind)]))  # type: ignore[arg-type]
    with serve(faulty, tell=failures.append) as server:
        client = Client(server)
        reply = client.request("/level1/plain/c/0/0")  # the document is looked up first
        assert reply.status == 500
        assert len(failures) == 1
        assert client.request("/level1/plain/c/0/0").status == 200


def test_a_failure_in_the_middle_ends_the_answer_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "PIECE", 1000)
    store = MemoryStore()
    store.set("zarr.json", b'{"node_type": "array"}')
    store.set("c/0", bytes(5000))
    failures: list[str] = []
    faulty = FaultyStore(store, FaultPlan([Fault("fetch", 5)]))
    with serve(faulty, tell=failures.append) as server:
        with pytest.raises(http.client.IncompleteRead):
            Client(server).request("/c/0", If_Match="*")
        assert len(failures) == 1
        assert Client(server).request("/c/0").body == bytes(5000)


def test_errors_have_one_line_whatever_their_message(
    stores: dict[str, Store], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Odd(CountingStore):
        def fetch(self, *_: object, **__: object) -> object:  # type: ignore[override]
            raise ZeroDivisionError("one\ntwo \x1b[31m")

    with serve(Odd(stores["memory"])) as server:
        assert Client(server).request("/zarr.json").status == 500
        assert Client(server).request("/", Accept="text/html").status == 500
    line = "frazil: ZeroDivisionError: one two ?[31m\n"
    assert capfd.readouterr() == ("", line + line)


def test_damaged_nodes_of_a_repository(tmp_path: Path) -> None:
    repo = frazil.Repository.create(tmp_path / "sea.repo", durable=False, chunk_packing="off")
    with repo.transaction(message="one") as root:
        root.create_array("a", data=np.arange(10_000), chunks=5000)
    failures: list[str] = []
    with serve(repo.readonly_session().store, tell=failures.append) as server:
        for path in (tmp_path / "sea.repo" / "chunks").iterdir():
            path.unlink()
        assert Client(server).request("/a/c/0").status == 500
        assert len(failures) == 1


# --- pages ---------------------------------------------------------------------------------------------------------------------------


def test_pages_for_people(served: tuple[Store, Client]) -> None:
    _, client = served
    page = client.request("/", Accept="text/html,application/xhtml+xml,*/*;q=0.8")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    text = page.body.decode()
    assert all(word in text for word in ("level1/sharded", "40 × 50", "int32", "8 × 8", "16 × 16"))
    links = re.findall(r'href="\./([^"]*)"', text)
    assert "level1/" in links
    for link in links:
        assert client.request("/" + link, Accept="text/html").status == 200
    assert "plain" in client.request("/level1/", Accept="text/html").body.decode()
    assert client.request("/", Accept="*/*").status == client.request("/nothing/", Accept="text/html").status == 404
    assert client.request("/", "HEAD", Accept="text/html").body == b""


def test_names_are_no_markup(tmp_path: Path) -> None:
    root = frazil.create_group(tmp_path)
    root.create_array('<b>"&', data=[1])
    root.create_array("javascript:alert(1)", data=[1])
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "zarr.json").write_text('{"zarr_format": 3, "node_type": "<i>"}')
    with serve(tmp_path) as server:
        text = Client(server).request("/", Accept="text/html").body.decode()
        assert "<b>" not in text
        assert "<i>" not in text
        assert "cannot be read" in text
        assert 'href="./javascript' in text


def test_a_folder_of_hierarchies(tmp_path: Path) -> None:
    for name in ("a.zarr", "b.zarr"):
        frazil.create_array(tmp_path / name, data=[1, 2])
    frazil.create_array(tmp_path / "old", data=[1, 2], zarr_format="draft")
    with serve(tmp_path) as server:
        client = Client(server)
        text = client.request("/", Accept="text/html").body.decode()
        assert 'href="./a.zarr/"' in text
        assert "int64" in client.request("/a.zarr/", Accept="text/html").body.decode()
        assert "int64" in client.request("/old/", Accept="text/html").body.decode()
        assert client.request("/b.zarr/c/0").status == 200
