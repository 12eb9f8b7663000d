"""Files that appear complete under their name: what is left when a process is killed, and what other processes still write."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.faults.concurrent_calls import fork

from frazil.stores.local.replaced_file import replaced_file


def test_an_unfinished_file_of_a_killed_process_is_removed_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"

    def run() -> None:
        with replaced_file(str(path)) as name:
            Path(name).write_bytes(b"half")
            os.kill(os.getpid(), signal.SIGKILL)

    assert os.waitpid(fork(run), 0)[1] == signal.SIGKILL
    (left,) = os.listdir(tmp_path)
    with replaced_file(str(tmp_path / "other.nc")) as name:
        Path(name).write_bytes(b"other")
    assert left in os.listdir(tmp_path), "it may belong to another destination alone"
    with replaced_file(str(path)) as name, replaced_file(str(path)) as second:
        Path(name).write_bytes(b"whole")
        assert Path(second).exists() and Path(name).exists(), "what is being written is not removed"
    assert sorted(os.listdir(tmp_path)) == ["a.nc", "other.nc"]
    assert path.read_bytes() == b"whole"


def test_modes(tmp_path: Path) -> None:
    """A new file has the usual mode, a replaced one the mode of the old file, and nobody else reads it before."""
    path, mask = tmp_path / "a", os.umask(0o027)
    try:
        for expected, meanwhile in ((0o640, 0o640), (0o604, 0o600)):
            with replaced_file(str(path)) as name:
                assert os.stat(name).st_mode & 0o777 == meanwhile
            assert path.stat().st_mode & 0o777 == expected
            path.chmod(0o604)
    finally:
        os.umask(mask)
