"""Real object stores: S3 by versitygw, Azure by Azurite. Each has its own secrets, which no message may show."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from itertools import count
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, ClassVar
from urllib.request import Request, urlopen

import pytest
from tests.servers.processes import SERVERS, program, running

if TYPE_CHECKING:
    from frazil.stores.objects.object_store import ObjectStore


class Buckets(ABC):
    """An object store over HTTP at `endpoint`.

    `options` are the settings by obstore's names, `environment` the same as variables for this or a child process."""

    scheme: ClassVar[str]

    def __init__(self, endpoint: str, secret: str) -> None:
        self.endpoint, self.secret = endpoint, secret
        self._numbers = count(1)

    def new_bucket(self) -> str:
        """The name of an empty bucket (a container, on Azure)."""
        name = f"bucket-{next(self._numbers)}"
        self._make(name)
        return name

    def url(self, bucket: str | None = None, prefix: str = "") -> str:
        """The URL of a prefix in a bucket; a new bucket if none is given."""
        return f"{self.scheme}://{bucket or self.new_bucket()}/{prefix}".rstrip("/")

    def store(
        self, bucket: str | None = None, prefix: str = "", *, endpoint: str | None = None, **options: object
    ) -> ObjectStore:
        """A prefix of a bucket as a store; a new bucket if none is given. endpoint: where requests go first."""
        from frazil.stores.objects.object_store import (
            ObjectStore,  # tests without obstore do not import it
        )

        return ObjectStore(self.url(bucket, prefix), **{**self.options(endpoint), **options})

    @abstractmethod
    def options(self, endpoint: str | None = None) -> dict[str, str]:
        """The options for obstore, with requests to the server or to `endpoint`."""

    @abstractmethod
    def environment(self, endpoint: str | None = None) -> dict[str, str]:
        """The same as variables."""

    @abstractmethod
    def _make(self, bucket: str) -> None: ...


class S3(Buckets):
    scheme = "s3"
    key = "frazil-tests"
    region = "us-east-1"

    def __init__(self, endpoint: str, secret: str, folder: Path) -> None:
        super().__init__(endpoint, secret)
        self.folder = folder

    def options(self, endpoint: str | None = None) -> dict[str, str]:
        return {
            "endpoint": endpoint or self.endpoint,
            "access_key_id": self.key,
            "secret_access_key": self.secret,
            "region": self.region,
            "allow_http": "true",
        }

    def environment(self, endpoint: str | None = None) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": endpoint or self.endpoint,
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_REGION": self.region,
            "AWS_ALLOW_HTTP": "true",
        }

    def _make(self, bucket: str) -> None:
        (self.folder / bucket).mkdir()


class Azure(Buckets):
    scheme = "az"
    account = "frazil"

    def options(self, endpoint: str | None = None) -> dict[str, str]:
        return {
            "endpoint": endpoint or self.endpoint,
            "account_name": self.account,
            "account_key": self.secret,
            "allow_http": "true",
        }

    def environment(self, endpoint: str | None = None) -> dict[str, str]:
        return {
            "AZURE_STORAGE_ENDPOINT": endpoint or self.endpoint,
            "AZURE_STORAGE_ACCOUNT_NAME": self.account,
            "AZURE_STORAGE_ACCOUNT_KEY": self.secret,
            "AZURE_ALLOW_HTTP": "true",
        }

    def _make(self, bucket: str) -> None:
        date = formatdate(usegmt=True)
        signed = f"PUT{chr(10) * 12}x-ms-date:{date}\nx-ms-version:2021-08-06\n/{self.account}/{self.account}/{bucket}\nrestype:container"
        digest = hmac.digest(base64.b64decode(self.secret), signed.encode(), hashlib.sha256)
        headers = {
            "x-ms-date": date,
            "x-ms-version": "2021-08-06",
            "Authorization": f"SharedKey {self.account}:{base64.b64encode(digest).decode()}",
        }
        request = Request(f"{self.endpoint}/{bucket}?restype=container", method="PUT", headers=headers)
        with urlopen(request, timeout=60) as answer:
            assert answer.status == 201


@contextmanager
def running_s3(folder: Path) -> Iterator[S3]:
    """versitygw over a folder, until the end of the block."""
    binary = program("bin/versitygw")
    secret = secrets.token_hex(20)
    with _folder_with_attributes(folder) as objects:

        def command(port: int) -> list[str]:
            return [
                binary, "--port", f"127.0.0.1:{port}", "--region", S3.region, "--quiet", "--keep-alive",
                "posix", str(objects),
            ]  # fmt: skip

        with running(command, folder, {"ROOT_ACCESS_KEY": S3.key, "ROOT_SECRET_KEY": secret}) as port:
            yield S3(f"http://127.0.0.1:{port}", secret, objects)


@contextmanager
def _folder_with_attributes(folder: Path) -> Iterator[Path]:
    """A folder whose files can have extended attributes, where versitygw keeps ETags. (Its alternative, separate files, does not change together with the
    objects: two conditional writes may both be reported as done.)"""
    for above in (folder, SERVERS):
        with TemporaryDirectory(dir=above, prefix="objects-", ignore_cleanup_errors=True) as name:
            try:
                os.setxattr(name, "user.try", b"")
            except OSError:
                continue
            yield Path(name)
            return
    pytest.skip("versitygw needs a disk with extended attributes")


@contextmanager
def running_azure(folder: Path) -> Iterator[Azure]:
    """Azurite, which keeps all data in memory, until the end of the block."""
    script = program("node_modules/azurite/dist/src/blob/main.js")
    node = which("node")
    if node is None:
        pytest.skip("Azurite runs under Node, which is not in the path")
    secret = base64.b64encode(secrets.token_bytes(32)).decode()

    def command(port: int) -> list[str]:
        return [
            node, script, "--silent", "--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck",
            "--blobHost", "127.0.0.1", "--blobPort", str(port),
        ]  # fmt: skip

    with running(command, folder, {"AZURITE_ACCOUNTS": f"{Azure.account}:{secret}"}) as port:
        yield Azure(f"http://127.0.0.1:{port}/{Azure.account}", secret)
