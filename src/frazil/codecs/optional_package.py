"""Packages that some codecs need. They are imported when the codec is created."""

from __future__ import annotations

from types import ModuleType

from frazil.base.optional_package import load_package
from frazil.errors import UnknownExtensionError


def required(module: str, codec: str, extra: str) -> ModuleType:
    """The module; UnknownExtensionError that names the extra of this package where it cannot be imported."""
    return load_package(module, f"the codec {codec} needs the package", extra, UnknownExtensionError)
