"""Google Cloud Storage by fake-gcs-server, which supports the JSON API, with a translator from the XML API, which obstore uses. The server decides the
generation of an object, and whether a conditional write may happen.

The translator supports only the parts of the XML API that object stores need: objects, lists, uploads in parts."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Lock
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit
from urllib.request import Request, urlopen
from xml.sax.saxutils import escape

from tests.servers.buckets import Buckets
from tests.servers.processes import program, running
from tests.servers.web import serving

_OWN = "x-goog-meta-"  # prefix of the names of user metadata of an object
_KEPT = ("ETag", "Content-Range", "Content-Type", "Last-Modified", "Accept-Ranges", "X-Goog-Generation")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    port: int  # of the server behind
    token: str
    lock: Lock
    uploads: dict[str, dict[int, bytes]]

    def do_GET(self) -> None:
        key, query = self._location()
        if "/" not in key:
            self._list(key, query)
            return
        status, headers, body = self._pass_on(self.command, f"/{key}", asked_range=self.headers.get("Range"))
        expected = self.headers.get("If-Match")
        if status < 400 and expected not in {
            None,
            "*",
            headers.get("ETag"),
        }:  # as one answer has both, nothing comes between
            self._refuse(412, "PreconditionFailed")
        elif status >= 400 or (status == 206 and headers["Content-Length"] == "0"):  # an empty object has no ranges
            self._refuse(*((404, "NoSuchKey") if status == 404 else (416, "InvalidRange")))
        else:
            length = headers["Content-Length"]
            self._answer(
                status,
                body,
                {name: headers[name] for name in headers if name in _KEPT or name.lower().startswith(_OWN)},
                length,
            )

    do_HEAD = do_GET

    def do_PUT(self) -> None:
        key, query = self._location()
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if "uploadId" in query:
            with self.lock:
                self.uploads[query["uploadId"]][int(query["partNumber"])] = body
            self._answer(200, b"", {"ETag": f'"{query["partNumber"]}"'})
        elif "x-goog-copy-source" in self.headers:
            self._copy(key, self.headers["x-goog-copy-source"].lstrip("/"))
        else:
            self._upload(key, body)

    def do_POST(self) -> None:
        key, query = self._location()
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "uploads" in query:
            number = secrets.token_hex(8)
            with self.lock:
                self.uploads[number] = {}
            text = f"<InitiateMultipartUploadResult><UploadId>{number}</UploadId></InitiateMultipartUploadResult>"
            self._answer(200, text.encode())
        else:
            with self.lock:
                parts = self.uploads.pop(query["uploadId"])
            self._upload(key, b"".join(parts[number] for number in sorted(parts)), in_body=True)

    def do_DELETE(self) -> None:
        key, query = self._location()
        if "uploadId" in query:
            with self.lock:
                self.uploads.pop(query["uploadId"], None)
            self._answer(204)
            return
        status, _, _ = self._pass_on("DELETE", f"/storage/v1/{_resource(key)}")
        if status >= 400:
            self._refuse(status, "NoSuchKey")
        else:
            self._answer(204)

    def _upload(self, key: str, body: bytes, *, in_body: bool = False) -> None:
        bucket, _, name = key.partition("/")
        request = {"uploadType": "media", "name": unquote(name)}
        if (generation := self.headers.get("x-goog-if-generation-match")) is not None:
            request["ifGenerationMatch"] = generation
        status, _, answer = self._pass_on("POST", f"/upload/storage/v1/b/{bucket}/o?{urlencode(request)}", body)
        if status >= 400:
            self._refuse(status, "PreconditionFailed" if status == 412 else "Refused")
            return
        about = json.loads(answer)
        etag = f'"{about["etag"]}"'
        text = f"<CompleteMultipartUploadResult><ETag>{escape(etag)}</ETag></CompleteMultipartUploadResult>"
        headers = {"ETag": etag, "x-goog-generation": about["generation"]}
        self._answer(200, text.encode() if in_body else b"", headers)

    def _copy(self, key: str, source: str) -> None:
        status, _, answer = self._pass_on("POST", f"/storage/v1/{_resource(source)}/rewriteTo/{_resource(key)}", b"{}")
        if status >= 400:
            self._refuse(status, "NoSuchKey")
            return
        about = json.loads(answer)["resource"]
        text = f"<CopyObjectResult><ETag>&quot;{about['etag']}&quot;</ETag></CopyObjectResult>"
        self._answer(200, text.encode(), {"x-goog-generation": about["generation"]})

    def _list(self, bucket: str, query: dict[str, str]) -> None:
        names = {
            "prefix": "prefix",
            "delimiter": "delimiter",
            "continuation-token": "pageToken",
            "max-keys": "maxResults",
        }
        request = {theirs: query[ours] for ours, theirs in names.items() if query.get(ours)}
        if "start-after" in query:
            request["startOffset"] = query["start-after"]
        status, _, body = self._pass_on("GET", f"/storage/v1/b/{bucket}/o?{urlencode(request)}")
        if status >= 400:
            self._refuse(status, "NoSuchBucket")
            return
        found = json.loads(body)
        parts = [
            f"<Contents><Key>{escape(one['name'])}</Key><LastModified>{one['updated']}</LastModified>"
            f'<ETag>"{one["etag"]}"</ETag><Size>{one["size"]}</Size></Contents>'
            for one in found.get("items", ())
            if one["name"] != query.get("start-after")
        ]
        parts += [
            f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in found.get("prefixes", ())
        ]
        if token := found.get("nextPageToken"):
            parts.append(f"<NextContinuationToken>{escape(token)}</NextContinuationToken>")
        self._answer(200, f"<ListBucketResult>{''.join(parts)}</ListBucketResult>".encode())

    # --- messages ---------------------------------------------------------------------------------------------------------------------

    def _location(self) -> tuple[str, dict[str, str]]:
        """The path without its first slash, still quoted, and the query."""
        request = urlsplit(self.path)
        return request.path.strip("/"), {
            name: values[0] for name, values in parse_qs(request.query, keep_blank_values=True).items()
        }

    def _pass_on(
        self, method: str, path: str, body: bytes | None = None, asked_range: str | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        if self.headers.get("Authorization") != f"Bearer {self.token}":
            return 401, {}, b""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            headers = {"Host": "objects"} if asked_range is None else {"Host": "objects", "Range": asked_range}
            headers |= {name: value for name, value in self.headers.items() if name.lower().startswith(_OWN)}
            connection.request(method, path, body, {**headers, "Content-Type": "application/octet-stream"})
            answer = connection.getresponse()
            return (
                answer.status,
                {name.title().replace("Etag", "ETag"): value for name, value in answer.getheaders()},
                answer.read(),
            )
        finally:
            connection.close()

    def _refuse(self, status: int, code: str) -> None:
        self._answer(status, f"<Error><Code>{code}</Code></Error>".encode())

    def _answer(
        self, status: int, body: bytes = b"", headers: dict[str, str] | None = None, length: str | None = None
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", length or str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Logs nothing."""


def _resource(key: str) -> str:
    """A bucket and a quoted key, in the form of paths of the JSON API."""
    bucket, _, name = key.partition("/")
    return f"b/{bucket}/o/{quote(unquote(name), safe='')}"


class Google(Buckets):
    scheme = "gs"

    def __init__(self, endpoint: str, secret: str, port: int) -> None:
        super().__init__(endpoint, secret)
        self._port = port

    def options(self, endpoint: str | None = None) -> dict[str, str]:
        return {"base_url": endpoint or self.endpoint, "bearer_token": self.secret, "allow_http": "true"}

    def environment(self, endpoint: str | None = None) -> dict[str, str]:
        return {
            "GOOGLE_BASE_URL": endpoint or self.endpoint,
            "GOOGLE_BEARER_TOKEN": self.secret,
            "GOOGLE_ALLOW_HTTP": "true",
        }

    def _make(self, bucket: str) -> None:
        request = Request(
            f"http://127.0.0.1:{self._port}/storage/v1/b?project=tests",
            data=json.dumps({"name": bucket}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urlopen(request, timeout=60) as answer:
            assert answer.status == 200


@contextmanager
def running_gcs(folder: Path) -> Iterator[Google]:
    """fake-gcs-server, which keeps all data in memory, until the end of the block."""
    binary = program("bin/fake-gcs-server")

    def command(port: int) -> list[str]:
        return [
            binary, "-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", str(port),
            "-public-host", "objects", "-log-level", "error",
        ]  # fmt: skip

    with running(command, folder) as port:
        secret = secrets.token_hex(20)
        kept: dict[str, object] = {"port": port, "token": secret, "lock": Lock(), "uploads": {}}
        with serving(type("Handler", (_Handler,), kept)) as url:
            yield Google(url, secret, port)
