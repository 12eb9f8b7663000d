"""Where results go: JSON or text to standard output, bytes to a file that is written completely or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack
from typing import IO, Final

from frazil.api.destinations import check_output
from frazil.errors import FrazilError, one_line
from frazil.metadata.json_text import Json, dump_json, spelt_out
from frazil.stores.local.replaced_file import descriptor_of, replaced_file

_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


def print_text(text: str) -> None:
    """Prints a text and a line break. Control characters are escaped, as names and attributes may hold any text; characters that the output
    cannot show become question marks."""
    encoding = sys.stdout.encoding or "utf-8"
    lines = "\n".join(one_line(line) for line in text.split("\n"))
    print(lines.encode(encoding, "replace").decode(encoding))


def print_json(value: Json) -> None:
    """Prints a value as JSON, with escapes for characters that cannot be printed, and strings for NaN and infinities."""
    text = dump_json(spelt_out(value)).decode().removesuffix("\n")
    print_text("\n".join(line if line.isprintable() else _escaped(line) for line in text.split("\n")))


def print_result(options: Namespace, document: Json, text: str) -> None:
    """Prints a result: the document if --json is given, else the text, if it is not empty."""
    if options.json:
        print_json(document)
    elif text:
        print_text(text)


def print_checked(options: Namespace, document: Json, text: str, *, ok: bool) -> None:
    """Prints the result of a check, and ends the program with status 1 if problems remain."""
    print_result(options, document, text)
    if not ok:
        sys.stdout.flush()
        raise SystemExit(1)


def _escaped(line: str) -> str:
    """A line of JSON, in which such characters occur only in strings."""
    return "".join(sign if sign.isprintable() else json.dumps(sign)[1:-1] for sign in line)


def check_picture(options: Namespace) -> None:
    """Refuses a name for the picture that is not that of a PNG file, and standard output if the result goes there too."""
    ending = os.path.splitext(options.output or "")[1]
    if ending.lower() not in ("", ".png"):
        options.refuse(f"pictures are PNG files: {options.output} ends in {ending}, not in .png")
    if options.json and options.output == "-":
        options.refuse("both the picture and the JSON would go to standard output: give -o FILE, or omit --json")


@contextlib.contextmanager
def binary_output(path: str | None) -> Iterator[IO[bytes]]:
    """A stream to the file at `path`, or to standard output for None and "-". The file appears under its name when it is complete; a path that is not a plain
    file (a pipe, a device) is written directly. Raises OSError that names `path`, also when writing to the stream fails; InvalidInputError for a place among
    the files of a repository."""
    if path is None or path == "-":
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    check_output(path)
    target = path
    try:
        with ExitStack() as files:
            if (number := descriptor_of(path)) is not None:
                sys.stdout.flush()
                yield files.enter_context(os.fdopen(os.dup(number), "wb"))
                return
            if os.path.isfile(path) or not os.path.exists(path):
                files.enter_context(ended_by_signals())
                path = files.enter_context(replaced_file(path))
            yield files.enter_context(open(path, "wb"))
    except OSError as error:
        if not isinstance(error, FrazilError):  # a FrazilError is about the data that is read
            error.filename = target
        raise


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """While a file is written: signals that end the program raise KeyboardInterrupt, which has the exit status, so that the unfinished file is removed. Signals
    that are ignored, as by nohup, or handled, stay so."""
    in_main = threading.current_thread() is threading.main_thread()
    numbers = [number for number in _ENDING if in_main and signal.getsignal(number) == signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _interrupt(number: int, _: object) -> None:
    raise KeyboardInterrupt(128 + number)
