"""`frazil rechunk`: forms in words, places, and the state after an interrupt."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import SEA, TEMP
from tests.servers.buckets import S3
from tests.servers.web import WebServer

import frazil
from frazil.cli.main import main
from frazil.operations.copy.journal import JOURNAL_NAME


def test_forms(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["rechunk", "sea.zarr", "a.zarr", "--chunks", "100,50", "--shards", "300,100", "--codecs", "zstd"]) == 0
    out, err = capfd.readouterr()
    assert out.startswith(
        f"{workdir / 'sea.zarr'} written to {workdir / 'a.zarr'}, chunks 100 x 50 in shards 300 x 100\n"
    )
    assert err == ""
    array = frazil.open_array("a.zarr")
    assert (array.chunks, array.shards, [codec.name for codec in array.codecs]) == (
        (100, 50),
        (300, 100),
        ["bytes", "zstd"],
    )
    assert array.dimension_names == ("y", "x")
    np.testing.assert_array_equal(array[...], SEA)
    gzip = '[{"name": "gzip", "configuration": {"level": 1}}]'
    assert main(["rechunk", "a.zarr", "b.zarr", "--shards", "none", "--codecs", gzip, "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert (document["chunks"], document["shards"], document["reads"], document["snapshot"]) == (
        [100, 50],
        None,
        1.0,
        None,
    )
    layout = ["--chunks", "auto", "--shards", "auto", "--codecs", "none", "--memory", "1MiB"]
    assert main(["rechunk", "b.zarr", "c.zarr", *layout]) == 0
    array = frazil.open_array("c.zarr")
    assert [codec.name for codec in array.codecs] == ["bytes"]
    np.testing.assert_array_equal(array[...], SEA)
    capfd.readouterr()
    assert main(["rechunk", "sea.zarr", "c.zarr"]) == 1
    assert "--overwrite" in capfd.readouterr().err
    assert main(["rechunk", "sea.zarr", "c.zarr", "--overwrite", "--dry-run"]) == 0
    assert "would be written" in capfd.readouterr().out
    assert frazil.open_array("c.zarr").metadata == array.metadata
    assert main(["rechunk", "sea.zarr", "c.zarr", "--overwrite"]) == 0
    assert frazil.open_array("c.zarr").chunks == (64, 64)


def test_repositories(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ["rechunk", "sea.repo@v1/level1/temp", "sea.repo@dev/rows", "--chunks", "1,1,50"]
    assert main([*arguments, "-m", "rows", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    repo = frazil.Repository.open("sea.repo")
    newest = next(repo.history("dev"))
    assert (newest.id, newest.message) == (document["snapshot"], "rows")
    array = frazil.open_array("sea.repo@dev/rows")
    assert array.chunks == (1, 1, 50)
    np.testing.assert_array_equal(array[...], TEMP)
    assert main(arguments) == 1
    assert main([*arguments, "--overwrite"]) == 0
    assert next(repo.history("dev")).message == "Rechunk sea.repo@v1/level1/temp"
    assert main(["rechunk", "sea.repo/level1/temp", "plain.zarr", "--chunks", "3,4,5"]) == 0
    np.testing.assert_array_equal(frazil.open_array("plain.zarr")[...], TEMP)
    capfd.readouterr()
    assert main(["rechunk", "sea.repo@v1", "x.zarr"]) == 1
    assert "a group is there" in capfd.readouterr().err
    assert main(["rechunk", "sea.zarr", "sea.repo@v1/x"]) == 1
    assert main(["rechunk", "sea.zarr", "new.repo@main/x"]) == 1
    assert not (workdir / "x.zarr").exists()


def test_buckets_and_web_servers(
    workdir: Path, s3: S3, web_server: WebServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    bucket = s3.new_bucket()
    with web_server(workdir) as url:
        assert (
            main(["rechunk", f"{url}/sea.zarr", f"s3://{bucket}/a.zarr", "--chunks", "50,50", "--shards", "none"]) == 0
        )
        assert main(["rechunk", "sea.zarr", f"{url}/b.zarr"]) == 1
    assert (
        main(["rechunk", f"s3://{bucket}/a.zarr", f"s3://{bucket}/b.zarr", "--chunks", "100,700", "--memory", "300KiB"])
        == 0
    )
    array = frazil.open_array(f"s3://{bucket}/b.zarr")
    assert array.chunks == (100, 700)
    np.testing.assert_array_equal(array[...], SEA)
    assert frazil.validate(f"s3://{bucket}/b.zarr", decode=True).ok
    capfd.readouterr()


INTERRUPTED = """
import os, signal, sys
from frazil.cli import progress
from frazil.cli.main import program

calls = []

def interrupted(self, nbytes):
    calls.append(nbytes)
    if len(calls) == 2:
        os.kill(os.getpid(), signal.SIGINT)

progress.Progress.__call__ = interrupted
sys.argv = ["frazil", "rechunk", *sys.argv[1:]]
program()
"""


def test_an_interrupt_leaves_what_the_same_command_finishes(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ["sea.zarr", "rows.zarr", "--chunks", "10,700", "--shards", "none", "--memory", "200KiB"]
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, *arguments], check=False, capture_output=True)
    assert done.returncode in (130, -signal.SIGINT)
    assert done.stderr == b""
    assert not os.path.exists("rows.zarr/zarr.json")
    assert os.path.exists(f"rows.zarr/{JOURNAL_NAME}")
    assert main(["rechunk", "sea.zarr", "rows.zarr", "--chunks", "20,700", "--shards", "none"]) == 1
    assert "already" in capfd.readouterr().err
    assert main(["rechunk", *arguments, "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["found"] in (1, 2)
    np.testing.assert_array_equal(frazil.open_array("rows.zarr")[...], SEA)
    assert frazil.validate("rows.zarr").ok
