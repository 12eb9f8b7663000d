"""Modules that few users need. Each is imported when one of its names is first used, so that the import of Frazil stays fast.

tests/test_layers.py lists these modules and the reasons. The rules of layers and cycles treat them as ordinary imports."""

from __future__ import annotations

import os
import sys
import time
from _thread import get_ident
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final

from frazil.base.retry import lacks_files, when_files_are_free
from frazil.errors import StoreError

_importing: Final[list[int]] = []  # a thread for each import that goes on


class LateModule:
    """A placeholder for a module that is imported when one of its members is first used.

    After the import both have one `__dict__`, so that names are found without a call."""

    __slots__ = ("__dict__", "_module", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._module: ModuleType | None = None

    def __getattr__(self, name: str) -> object:
        if name == "__wrapped__":  # doctest asks the members of a package for it, one by one: an import would add some
            raise AttributeError(name)
        if self._module is None:
            module = imported(self._name)
            if getattr(module.__spec__, "_initializing", False):  # a signal handler within the import, which may fail
                return getattr(module, name)
            self.__dict__ = module.__dict__
            self._module = module
        return getattr(self._module, name)

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        # also for copies, which would ask an object without a name for its members, without end
        return import_module, (self._name,)

    def __repr__(self) -> str:
        return f"LateModule({self._name!r})"


def late_modules(package: str, *names: str) -> None:
    """Makes modules of a package late: `from package import name` gives a placeholder for each of these names until one of its members is used."""
    members = vars(sys.modules[package])
    for name in names:
        members.setdefault(name, LateModule(f"{package}.{name}"))


def load(*modules: ModuleType) -> None:
    """Imports late modules now, where that may be impossible later: without free descriptors, or after chroot."""
    for module in modules:
        _ = module.__name__


def imported(name: str) -> ModuleType:
    """A module. While too many files are open, it waits for a second at most, as the caller may hold some of them. Raises StoreError."""
    own = get_ident()
    _importing.append(own)
    try:
        return when_files_are_free(lambda: import_module(name))
    except OSError as error:
        if not lacks_files(error):
            raise
        raise StoreError(
            f"module {name} cannot be imported: too many files are open",
            errno=error.errno,
            hint="raise the limit (ulimit -n)",
        ) from None
    finally:
        _importing.remove(own)


def _wait_for_imports() -> None:
    """Waits for imports by other threads, a second at most, as they may wait for a lock of this one. A child that is forked meanwhile would have a half of the
    module, and its lock, which no thread there releases."""
    own, end = get_ident(), time.monotonic() + 1
    while any(thread != own for thread in list(_importing)) and time.monotonic() < end:
        time.sleep(0.001)


def _forget_other_threads() -> None:
    """In a forked child, which does not have them."""
    own = get_ident()
    _importing[:] = [thread for thread in _importing if thread == own]


os.register_at_fork(before=_wait_for_imports, after_in_child=_forget_other_threads)


if TYPE_CHECKING:
    from frazil.base import missing_names
else:
    missing_names = LateModule("frazil.base.missing_names")


def late_names(package: str, names: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package that exports names of late modules. names: for each name the module that has it, or is it. The error for a name
    of zarr-python names the replacement (missing_names.py)."""

    def get(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}{missing_names.hint(package, name)}")
        module = imported(names[name])
        value: object = module if names[name] == f"{package}.{name}" else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *names})

    return get, list_names
