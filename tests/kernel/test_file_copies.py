"""copy_files of the kernel: many files in one call, on any number of threads; refusals, and the state after a refusal. Copies between stores:
tests/stores/transfer/test_value_copies.py."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from frazil import _kernel


class Two:
    """A folder to copy from and one to copy to, with their descriptors."""

    def __init__(self, path: Path, held: ExitStack) -> None:
        self.here, self.there = path / "here", path / "there"
        for folder in (self.here, self.there):
            folder.mkdir()
        self.source, self.root = (os.open(folder, os.O_RDONLY | os.O_DIRECTORY) for folder in (self.here, self.there))
        held.callback(os.close, self.source)
        held.callback(os.close, self.root)

    def copy(self, sources: Sequence[str], names: Sequence[str] | None = None, threads: int = 1) -> list[list[int]]:
        result = np.full((len(sources), 2), -99)
        _kernel.copy_files(self.source, sources, self.root, names or sources, False, threads, result)
        answers: list[list[int]] = result.tolist()
        return answers

    def found(self) -> dict[str, bytes]:
        files = (path for path in self.there.rglob("*") if path.is_file())
        return {str(path.relative_to(self.there)): path.read_bytes() for path in files}


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    with ExitStack() as held:
        yield Two(tmp_path, held)


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_many_files_of_many_sizes(two: Two, threads: int) -> None:
    sizes = [0, 1, 4096, 2**14, 2**14 + 1, 2**18 - 1, 700_001]
    values = {f"{number % 5}/{number}/v": os.urandom(sizes[number % len(sizes)]) for number in range(70)}
    for number, (name, value) in enumerate(values.items()):
        path = two.here / name
        path.parent.mkdir(parents=True)
        path.write_bytes(value)
        os.utime(path, ns=(10**18 + number, 10**18 - number * 1001))
    for _ in range(2):  # the second time, over existing files
        assert two.copy(list(values), threads=threads) == [[0, len(value)] for value in values.values()]
        assert two.found() == values
    for number, name in enumerate(values):
        assert (two.there / name).stat().st_mtime_ns == 10**18 - number * 1001


def test_answers_tell_what_is_missing_and_which_side_refuses(two: Two, tmp_path: Path) -> None:
    (two.here / "f").mkdir()
    (two.here / "f" / "a").write_bytes(b"1")
    (two.here / "link").symlink_to("f/a")
    (two.here / "links").symlink_to("f")
    os.mkfifo(two.here / "pipe")
    (two.there / "folder" / "full").mkdir(parents=True)
    (two.there / "file").write_bytes(b"old")
    (tmp_path / "outside").mkdir()
    (two.there / "out").symlink_to(tmp_path / "outside")
    (two.there / "old").symlink_to(tmp_path / "outside" / "old")
    cases = [
        ("f/a", "new", [0, 1]),
        ("f/a", "old", [errno.ELOOP, 1]),  # a link is neither followed nor replaced
        ("f", "x", [-1, 0]),
        ("none", "x", [-1, 0]),
        ("f/a/b", "x", [-1, 0]),
        ("none/a", "y/z/x", [-1, 0]),
        ("links/a", "x", [-1, 0]),
        ("link", "x", [errno.ELOOP, 0]),
        ("pipe", "x", [errno.ENXIO, 0]),
        ("f/a", "folder", [errno.EISDIR, 1]),
        ("f/a", "file/x", [errno.ENOTDIR, 1]),
        ("f/a", "out/x", [errno.ELOOP, 1]),
        ("f/a", "n" * 256, [errno.ENAMETOOLONG, 1]),
    ]
    answers = two.copy([case[0] for case in cases], [case[1] for case in cases], threads=2)
    assert answers == [case[2] for case in cases]
    assert two.found() == {"new": b"1", "file": b"old"}
    assert os.listdir(tmp_path / "outside") == []
    assert sorted(os.listdir(two.there)) == ["file", "folder", "new", "old", "out"]
    assert (two.there / "old").is_symlink()


def test_bad_arguments_are_refused_before_anything_is_written(two: Two) -> None:
    (two.here / "a").write_bytes(b"1")
    good: dict[str, Any] = {
        "source": two.source, "sources": ["a"], "root": two.root, "names": ["a"], "sync": False, "threads": 1,
        "result": np.zeros((1, 2), np.int64),
    }  # fmt: skip
    wrong: list[dict[str, Any]] = [
        {"source": -1}, {"root": -1}, {"sources": []}, {"sources": ["a", "a"]}, {"names": []},
        {"result": np.zeros((2, 2), np.int64)}, {"result": np.zeros((1, 3), np.int64)}, {"result": np.zeros((1, 2))},
        *({side: [name]} for side in ("sources", "names") for name in ("", "/a", "a/", "../a", "a/./b", "a\0")),
    ]  # fmt: skip
    for change in wrong:
        with pytest.raises(ValueError):
            _kernel.copy_files(**{**good, **change})
    assert two.found() == {}
    closed = os.dup(two.source)
    os.close(closed)
    result = np.zeros((1, 2), np.int64)
    _kernel.copy_files(closed, ["a"], two.root, ["a"], False, 1, result)
    assert result.tolist() == [[errno.EBADF, 0]]
