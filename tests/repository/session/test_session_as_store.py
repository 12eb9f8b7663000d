"""A session's keys in the suite of all stores: chunks and documents, over plain nodes and in repositories."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from tests.repository.plain_nodes import plain_session, repository_session

import frazil
from frazil.stores import LocalStore, MemoryStore, Store
from frazil.testing import CHUNK_KEYS, DOCUMENT_KEYS, StoreTests


class TestChunks(StoreTests):
    profile = CHUNK_KEYS

    def make_store(self) -> Store:
        return plain_session()


class TestDocuments(StoreTests):
    profile = DOCUMENT_KEYS

    def make_store(self) -> Store:
        return plain_session()


class TestSessionChunks(StoreTests):
    profile = CHUNK_KEYS

    def make_store(self) -> Store:
        return repository_session()


class TestSessionDocuments(TestSessionChunks):
    profile = DOCUMENT_KEYS


class TestCommittedChunks(StoreTests):
    """Existing data is in the snapshot that the session starts from."""

    profile = CHUNK_KEYS

    def make_store(self) -> Store:
        return repository_session()

    def filled_with(self, values: dict[str, bytes]) -> Store:
        session = frazil.Repository.create(MemoryStore()).writable_session("main")
        store = self.profile.over(session.store)
        for key, value in values.items():
            store.set(key, value)
        session.commit("filled", allow_empty=True)
        return store


class TestChunksInFiles(StoreTests):
    """Each chunk in its own file, which is removed when the session replaces it."""

    profile = CHUNK_KEYS

    @pytest.fixture(autouse=True)
    def _folders(self, tmp_path: Path) -> None:
        self.folders = (tmp_path / str(i) for i in count())

    def make_store(self) -> Store:
        made = frazil.Repository.create(LocalStore(next(self.folders)), chunk_packing="off", durable=False)
        return made.writable_session("main").store
