"""Progress bars: drawn only on terminals."""

from __future__ import annotations

import io

from frazil.cli.progress import Progress, Steps


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_needs_a_terminal() -> None:
    stream = io.StringIO()
    with Progress("reading", 100, stream) as report:
        report._next = 0
        report(50)
    assert stream.getvalue() == ""


def test_progress_is_off_with_json_and_quiet() -> None:
    stream = Terminal()
    with Progress("reading", 100, stream, shows=False) as report:
        report._next = 0
        report(50)
    assert stream.getvalue() == ""


def test_short_work_shows_no_progress() -> None:
    stream = Terminal()
    with Progress("reading", 100, stream) as report:
        report(50)
    assert stream.getvalue() == ""


def test_the_progress_bar_is_erased_at_the_end() -> None:
    stream = Terminal()
    with Progress("reading", 2**20, stream) as report:
        report._next = 0
        report(2**19)
    drawn = stream.getvalue().split("\r")
    assert "reading [############------------]  50% of 1.0 MiB" in drawn[1]
    assert drawn[2].strip() == ""
    assert len(drawn[2]) == len(drawn[1])
    assert drawn[-1] == ""


def test_lines() -> None:
    bar = Progress("writing", 1000, io.StringIO())
    bar(250)
    assert bar.line(2.0) == "writing [######------------------]  25% of 1000 B, 125 B/s, 6 s left"
    bar(750)
    assert bar.line(4.0) == "writing [########################] 100% of 1000 B, 250 B/s"
    assert "100%" in Progress("reading", 0, io.StringIO()).line(0.0)


def test_steps_are_counted_on_a_terminal_only() -> None:
    stream, nobody = Terminal(), io.StringIO()
    for target in (stream, nobody):
        with Steps(target) as report:
            report._next = 0
            report("chunks listed", 5)
            report._next = 0
            report("chunks listed", 7)
            report._next = 0
            report("manifests read", 1)
    assert nobody.getvalue() == ""
    assert stream.getvalue() == "\r5 chunks listed\r12 chunks listed\r1 manifests read" + "\r" + " " * 16 + "\r"
