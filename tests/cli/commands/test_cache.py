"""`frazil cache`: shows, trims and clears; sizes in common notations; folders that are not caches."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from frazil.cli.command import size
from frazil.cli.main import main
from frazil.stores import MemoryStore
from frazil.stores.caches.disk_cache import DiskCache
from frazil.testing import CountingStore


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Ten ranges of 1000 bytes, the last one used in 2001, each a day later than the one before it."""
    inner = CountingStore(MemoryStore())
    store = DiskCache(inner, tmp_path / "cache", unchanging=("",))
    for i in range(10):
        inner.set(f"{i}", bytes([i]) * 1000)
        store.get(f"{i}")
        [new] = [path for path in (tmp_path / "cache").glob("???/*") if path.stat().st_mtime > 10**9 + 10**8]
        os.utime(new, (10**9 - (9 - i) * 86400,) * 2)
    return tmp_path / "cache"


def shown(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, object]:
    assert main(["cache", *map(str, arguments), "--json"]) == 0
    document: dict[str, object] = json.loads(capsys.readouterr().out)
    return document


def test_cache_shows_its_content(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = shown(capsys, cache)
    assert report == {
        "folder": str(cache),
        "files": 10,
        "nbytes": sum(path.stat().st_size for path in cache.glob("???/*")),
        "oldest_use": "2001-08-31T01:46:40Z",
        "newest_use": "2001-09-09T01:46:40Z",
    }
    assert main(["cache", str(cache)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["kept", "9.9", "KiB", "in", "10", "ranges"]
    assert lines[2].endswith("2001-08-31T01:46:40Z")


def test_cache_trims(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, cache, "--trim", "1MB")["removed_files"] == 0
    report = shown(capsys, cache, "--trim", "5.5 kB")
    assert (report["files"], report["removed_files"], report["oldest_use"]) == (5, 5, "2001-09-05T01:46:40Z")
    report = shown(capsys, cache, "--clear")
    assert (report["files"], report["nbytes"], report["oldest_use"]) == (0, 0, None)
    assert main(["cache", str(cache), "--trim", "0"]) == 0
    assert "removed  0 B in 0 ranges" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [("0", 0), ("17", 17), ("17B", 17), ("1.5k", 1500), ("2KiB", 2048), ("10GB", 10**10), ("10 GiB", 10 * 2**30), ("1tb", 10**12), ("0.001P", 10**12)],
)  # fmt: skip
def test_sizes(text: str, nbytes: int) -> None:
    assert size(text) == nbytes


@pytest.mark.parametrize("text", ["", "GB", "-5", "1e9", "1,5GB", "5 bytes", "5iB", "٣"])
def test_invalid_sizes_are_refused(text: str, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", str(cache), f"--trim={text}"]) == 2
    assert "is not a size" in capsys.readouterr().err


def test_trim_and_clear_are_not_said_together(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", str(cache), "--clear", "--trim", "5"]) == 2
    assert "not allowed with" in capsys.readouterr().err


def test_folders_that_are_no_caches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "photo").write_bytes(b"x")
    for where, what in ((tmp_path, "the folder is not a cache"), (tmp_path / "nowhere", "there is no cache")):
        assert main(["cache", str(where), "--clear"]) == 1
        error = capsys.readouterr().err
        assert what in error
        assert len(error.splitlines()) == 1
    assert (tmp_path / "photo").exists()
    assert not (tmp_path / "nowhere").exists()
