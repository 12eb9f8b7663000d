"""Servers as processes: started on a free port of the loopback interface, waited for, ended together with their parent. Knows no protocol."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SERVERS = (ROOT / os.environ.get("SERVERS", ".servers")).resolve()
DEADLINE = 60.0  # seconds until a server must listen: generous, as test machines are busy

# Asks the kernel to end the process with its parent, even if that is killed, and becomes the server. A separate program, as code between fork and exec is not
# safe if threads run.
_LAUNCHER = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent has gone")
os.execvp(sys.argv[2], sys.argv[2:])
"""


@contextmanager
def held_port() -> Iterator[int]:
    """A free port, which no other process gets during the block: the system gives the port of a bound socket to nobody, but a server with SO_REUSEADDR can bind
    it as long as nothing listens there."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])


def program(*places: str) -> str:
    """The first of these files that exists below the folder of servers; skips the test if none exists."""
    for place in places:
        if (SERVERS / place).exists():
            return str(SERVERS / place)
    pytest.skip(f"{places[0]} is not in {SERVERS.name}: tools/servers installs it where it can")


def _listens(port: int, process: subprocess.Popen[bytes]) -> bool:
    until = time.monotonic() + DEADLINE
    while time.monotonic() < until and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return process.poll() is None
    return False


@contextmanager
def running(
    command: Callable[[int], Sequence[str]], folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator[int]:
    """The port on which a server runs until the end of the block; if it does not start, skips the test and shows the server's last output."""
    log = folder / "log"
    with held_port() as port, log.open("wb") as words:
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", _LAUNCHER, str(os.getpid()), *command(port)],
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            cwd=folder,
        )
        try:
            if _listens(port, process):
                yield port
                return
        finally:
            process.kill()
            process.wait()
    last = log.read_text(errors="replace").strip().splitlines()[-1:]
    pytest.skip(f"{Path(command(0)[0]).name} does not start here: {''.join(last)}")
