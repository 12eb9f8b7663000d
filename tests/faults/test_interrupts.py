"""Ctrl-C while a server is silent: the program ends at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from tests.servers.buckets import S3
from tests.servers.proxy import FaultProxy

import frazil

PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests run with the signal ignored
from frazil.cli.main import program
program()
"""
COMMANDS = {"get": "GET /c/", "info": "GET zarr.json"}


@pytest.mark.parametrize("command", list(COMMANDS))
def test_a_command_ends_at_once(s3: S3, command: str) -> None:
    match = COMMANDS[command]
    bucket = s3.new_bucket()
    frazil.create_array(s3.store(bucket, "sea"), shape=(64,), dtype="i4", chunks=(2,), shards=(8,))[...] = np.arange(64)
    with FaultProxy(s3.endpoint) as proxy:
        proxy.fail(match, "stall", None)
        running = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, command, f"s3://{bucket}/sea"],
            env={**os.environ, **s3.environment(proxy.url)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            while not proxy.requests_matching(match) and running.poll() is None:
                time.sleep(0.01)
            running.send_signal(signal.SIGINT)
            out, errors = running.communicate(timeout=15)  # the client's own timeout is twice that, for each try
        finally:
            running.kill()
    assert (running.returncode, out, errors) == (130, "", "")
