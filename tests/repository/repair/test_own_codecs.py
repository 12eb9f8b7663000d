"""Chunks of codecs in Python: an exception of the codec itself is not damage, so a repair never gives these chunks up."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import frazil
from frazil.codecs import DEFAULT_REGISTRY, BytesToBytes
from frazil.errors import (
    ChecksumError,
    ChunkDecodeError,
    FormatError,
    InvalidInputError,
    MissingPackageError,
    NotFoundError,
)
from frazil.stores import MemoryStore


class Own(BytesToBytes):
    """Keeps bytes as they are; `answer` decides what decoding a chunk that begins with the byte 7 does."""

    __slots__ = ()
    name = "https://example.org/own"
    answer: Callable[[bytes], object]

    def encode(self, data: bytes) -> bytes:
        return data

    def decode(self, data: bytes, limit: int) -> bytes:
        return type(self).answer(data) if data[0] == 7 else data  # type: ignore[return-value]


def raising(error: BaseException, cause: BaseException | None = None) -> Callable[[bytes], object]:
    def answer(_: bytes) -> object:
        raise error from cause

    return answer


def filled(sharded: bool) -> tuple[MemoryStore, frazil.Repository]:
    store = MemoryStore()
    repo = frazil.Repository.create(store, registry=DEFAULT_REGISTRY.with_codec(Own))
    with repo.transaction(message="a") as root:
        shards = (4,) if sharded else None
        root.create_array(
            "a", data=np.array([5, 5, 7, 7, 9, 9, 9, 9], "u1"), chunks=(2,), shards=shards, codecs=[Own()]
        )
    return store, repo


FAILURES = {
    "bug": raising(ZeroDivisionError("a bug")),
    "package": raising(ImportError("no module")),
    "package of ours": raising(MissingPackageError("no module")),
    "file": raising(FileNotFoundError("dictionary.bin")),
    "key": raising(NotFoundError("no dictionary", key="dictionary")),
    "argument": raising(InvalidInputError("wrong")),
    "value": raising(ValueError("perhaps wrong bytes")),
    "memory": raising(MemoryError("too much")),
    "nothing": lambda _: None,
}
DAMAGES = {
    "chunk": raising(ChunkDecodeError("wrong bytes")),
    "its cause": raising(ChunkDecodeError("wrong bytes"), ValueError("wrong")),
    "checksum": raising(ChecksumError("wrong checksum")),
    "format": raising(FormatError("wrong bytes")),
    "size": lambda data: data * 9,
}


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("name", FAILURES)
def test_chunks_whose_codec_fails_are_kept(name: str, sharded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    store, repo = filled(sharded)
    monkeypatch.setattr(Own, "answer", staticmethod(FAILURES[name]), raising=False)
    before = {key: store.get(key) for key in store.list()}
    found = repo.verify(decode=True)
    chunks = None if name == "memory" else [[0 if sharded else 1]]
    kind = "decode" if name == "memory" else "codec"
    assert [(one.kind, one.path) for one in found.problems] == [(kind, "/a")]
    assert [None if one.chunks is None else one.chunks.tolist() for one in found.problems] == [chunks]
    done = repo.repair(decode=True, accept_loss=True, older=True, tips=True, history=True)
    assert not (done.commits or done.created or done.moved or done.lost)
    assert [str(one) for one in done.after] == [str(one) for one in found.problems]
    assert {key: store.get(key) for key in store.list()} == before
    if name != "memory":
        with pytest.raises(ChunkDecodeError, match="may be intact") as caught:
            repo.readonly_session().root["a"][:]
        assert caught.value.codec_failed
    monkeypatch.setattr(Own, "answer", staticmethod(lambda data: data))
    assert repo.verify(decode=True).ok
    assert repo.readonly_session().root["a"][2] == 7


@pytest.mark.parametrize("name", DAMAGES)
def test_chunks_that_a_codec_calls_wrong_are_given_up(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, repo = filled(sharded=False)
    monkeypatch.setattr(Own, "answer", staticmethod(DAMAGES[name]), raising=False)
    assert [one.kind for one in repo.verify(decode=True).problems] == ["decode"]
    with pytest.raises((ChunkDecodeError, ChecksumError, FormatError)) as caught:
        repo.readonly_session().root["a"][:]
    assert not getattr(caught.value, "codec_failed", False)
    assert repo.repair(decode=True, accept_loss=True).ok
    assert repo.readonly_session().root["a"][:].tolist() == [5, 5, 0, 0, 9, 9, 9, 9]
