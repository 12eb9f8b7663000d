"""Hints of errors in the words of the command line: `overwrite=True` becomes --overwrite. The parser of the command gives the options."""

from __future__ import annotations

import re
import shlex
from argparse import ArgumentParser
from typing import Final

from frazil.api.node_locations import CREATES

_KEYWORD: Final = re.compile(
    r"""\b(?P<name>[a-z][a-z_]*)=(?:(?P<flag>True)\b|(?P<list>\[[^]]*\])|(?P<text>"[^"]*"|'[^']*')|(?P<number>\d+)|(?=[\s,;:.)]|$))"""
)
_QUOTED: Final = re.compile(r"""["']([^"']*)["']""")


def with_options(hint: str, parser: ArgumentParser) -> str:
    """A hint with arguments of Python, such as `now=True`, `mode="copy"` and `skip=`, replaced by options of a command. Arguments that are not options of it
    stay, but not the advice to create a node by a mode, which no command does."""

    def option(found: re.Match[str]) -> str:
        name, values = found["name"], _values(found)
        for action in parser._actions:
            if action.option_strings and action.dest in {name, name.removesuffix("s"), name.removesuffix("es")}:
                flag = action.option_strings[-1]
                if action.nargs != 0 and found["flag"] is None and (values or found["list"] is None):
                    return " ".join([f"{flag} {shlex.quote(value)}" for value in values]) or flag
                if action.nargs == 0 and (found["flag"] is not None or values == [action.const]):
                    return flag
        return found[0]

    return _KEYWORD.sub(option, hint.removesuffix(f"; {CREATES}"))


def _values(found: re.Match[str]) -> list[str]:
    """The texts and numbers of a keyword."""
    if found["number"] is not None:
        return [found["number"]]
    return _QUOTED.findall(found["list"] or found["text"] or "")
