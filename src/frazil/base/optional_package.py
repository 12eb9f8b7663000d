"""Packages that a plain installation does not have. They are imported when something needs them."""

from __future__ import annotations

from types import ModuleType

from frazil.base.late import imported
from frazil.errors import InvalidInputError, MissingPackageError, StoreError, UnknownExtensionError


def load_package(
    module: str, needed: str, extra: str, refusal: type[InvalidInputError] = InvalidInputError
) -> ModuleType:
    """The module. Raises `refusal` where it cannot be imported, with the extra of this package that has it. needed: for what, as in "TIFF files are read
    with". Raises StoreError while too many files are open."""
    try:
        return imported(module)
    except StoreError:
        raise
    # some packages fail at import if another one has an unexpected version, or a library is missing
    except Exception as error:
        raise missing_package(module, needed, extra, error, refusal) from error


def codec_package(module: str, codec: str, extra: str) -> ModuleType:
    """The module that a codec needs; UnknownExtensionError as in load_package."""
    return load_package(module, f"the codec {codec} needs the package", extra, UnknownExtensionError)


def missing_package(
    module: str, needed: str, extra: str, error: Exception, refusal: type[InvalidInputError] = MissingPackageError
) -> InvalidInputError:
    """The error for a module that cannot be imported; arguments as in load_package. error: that of the import"""
    return refusal(
        f"{needed} {module.partition('.')[0]}, which cannot be imported ({error})",
        hint=f"pip install 'frazil[{extra}]'",
    )
