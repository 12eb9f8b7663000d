"""Runs calls at the same time: in threads, in forked processes, in new ones. A failure in one of them fails the test."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

Call = Callable[[int], object]
SECONDS = 600  # until what hangs ends: far more than any call takes on a busy machine


def in_threads(count: int, call: Call) -> None:
    """call(0) to call(count - 1), started together; raises the first error."""
    errors: list[BaseException] = []
    gate = threading.Barrier(count)

    def run(number: int) -> None:
        try:
            gate.wait()
            call(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def fork(call: Callable[[], object]) -> int:
    """A child that makes the call and exits with 0. If the call raises, it prints the traceback and exits with 1. If it hangs, an alarm ends it."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(SECONDS)
        status = 1
        try:
            call()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    return pid


def in_processes(count: int, call: Call) -> None:
    """Like in_threads, but in forked processes."""
    pids = [fork(lambda number=number: call(number)) for number in range(count)]  # type: ignore[misc]
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * count


def read_pipe(pipe: int, most: int = 4096) -> bytes:
    """What children wrote to a pipe; fails if all have ended. The parent has closed its end for writing: it would wait for ever for children that failed."""
    found = os.read(pipe, most)
    assert found, "no child is left that writes"
    return found


def wait_until(met: Callable[[], bool], child: int) -> None:
    """Waits for what a child does; fails if it has ended without doing it. It stays to be waited for."""
    while not met():
        ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        assert ended is None or met(), f"the child has ended: {ended}"
        os.sched_yield()


@contextmanager
def running(script: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A new Python process with pipes to it; killed at the end if it is still running."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def finish(process: subprocess.Popen[str]) -> str:
    """The output of a process until its end. The process must succeed."""
    output, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, errors
    return output


def run(script: str, *arguments: object) -> str:
    with running(script, *arguments) as process:
        return finish(process)


def expect_line(stream: IO[str] | None, line: str) -> None:
    assert stream is not None
    assert stream.readline().strip() == line


def open_files() -> int:
    """Descriptors that this process has open after a garbage collection."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))
