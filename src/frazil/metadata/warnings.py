"""Warnings that point to the line of user code that opened something, also if they are raised deep inside this package."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from typing import Final

# this package, and the mapping that groups derive from, whose `get` and `pop` call back into it
_SKIPPED_FILES: Final = (os.path.dirname(os.path.dirname(__file__)), Mapping.get.__code__.co_filename)


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warns at the innermost frame that is not of this package; if there is none, at the outermost one."""
    # not skip_file_prefixes, which does not skip the frames of frozen modules, such as that of Mapping
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_SKIPPED_FILES):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
