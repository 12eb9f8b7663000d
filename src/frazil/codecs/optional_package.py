"""Packages that some codecs need. They are imported when the codec is created."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from frazil.errors import UnknownExtensionError


def required(module: str, codec: str, extra: str) -> ModuleType:
    """The module; UnknownExtensionError that names the extra of this package where it cannot be imported."""
    try:
        return import_module(module)
    except Exception as error:  # some packages fail at import if another one has an unexpected version
        raise UnknownExtensionError(
            f"the codec {codec} needs the package {module.partition('.')[0]}, which cannot be imported ({error})",
            hint=f"pip install 'frazil[{extra}]'",
        ) from error
