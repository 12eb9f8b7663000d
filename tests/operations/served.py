"""Shared by the tests of serving: a hierarchy to serve, and a client on one connection."""

from __future__ import annotations

import http.client
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import frazil
from frazil.operations.serve.consolidated_documents import ConsolidatedDocuments
from frazil.operations.serve.server import Server
from frazil.stores import Store

VALUES = np.random.default_rng(0).integers(0, 1000, (40, 50), dtype="<i4")


class Reply(SimpleNamespace):
    """status, headers by lower-case name, body"""

    status: int
    headers: dict[str, str]
    body: bytes


class Client:
    """One connection that stays open."""

    def __init__(self, server: Server) -> None:
        self.connection = http.client.HTTPConnection(server.url.removeprefix("http://").rstrip("/"), timeout=60)

    def __del__(self) -> None:
        self.connection.close()

    def request(self, target: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Reply:
        self.connection.request(method, target, body, {name.replace("_", "-"): text for name, text in headers.items()})
        answer = self.connection.getresponse()
        fields = {name.lower(): text for name, text in answer.getheaders()}
        return Reply(status=answer.status, headers=fields, body=answer.read())


def fill(root: frazil.Group) -> None:
    root.create_array("level1/plain", data=VALUES, chunks=(16, 16))
    root.create_array("level1/sharded", data=VALUES + 1, chunks=(8, 8), shards=(16, 16))
    root.attrs["title"] = "The sea"


def served_value(store: Store, key: str) -> bytes:
    """The served value of a key: the stored value, and for groups their documents with consolidated metadata."""
    stored = store.get(key)
    assert stored is not None
    return ConsolidatedDocuments().document(store, key) or stored


def old_files(folder: Path) -> None:
    """Sets the files of a folder to an hour old: the version of a recent file could equal that of the next one."""
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 3600.25))
