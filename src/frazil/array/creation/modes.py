"""The modes in which arrays and groups are opened: the default, and which arguments contradict a mode. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from frazil.array.arguments import check_flag
from frazil.array.creation import zarr_arguments
from frazil.errors import AlreadyExistsError, InvalidInputError

Mode = Literal["r", "r+", "a", "w", "w-"]
_MODES: Final = ("r", "r+", "a", "w", "w-")
OF_A_NEW_ARRAY: Final = (
    "data",
    "explicit_groups",
    "entry_point",
    "progress",
)  # arguments of create_array that its metadata does not have
_DESCRIBING: Final = ("shape", "data", "attributes")  # arguments that describe a new node


def checked_mode(mode: Mode | None, arguments: Mapping[str, object]) -> Mode:
    """The mode. If it is left out, the other arguments decide: "a" if they describe a new node, "r" otherwise and with read_only=True."""
    if mode is None and not arguments:
        return "r"
    if mode is not None and (not isinstance(mode, str) or mode not in _MODES):
        raise InvalidInputError(f"mode is {mode!r}; it must be one of {', '.join(_MODES)}")
    read_only = arguments.get("read_only")
    if read_only is not None:
        check_flag(read_only, "read_only")
    if read_only and mode not in (None, "r"):
        raise InvalidInputError(f"mode {mode!r} writes, and read_only=True forbids that", hint='use mode "r"')
    if mode is None:
        return "r" if read_only or all(describes_nothing(name, arguments.get(name)) for name in _DESCRIBING) else "a"
    return mode


def lost_argument(mode: Mode | None, arguments: Mapping[str, object]) -> str | None:
    """The first of data and attributes that is given without a mode: an existing node would not get it."""
    if mode is not None or not arguments:
        return None
    supplied = (name for name in ("data", "attributes") if not describes_nothing(name, arguments.get(name)))
    return next(supplied, None)


def describes_nothing(name: str, value: object) -> bool:
    """Whether an argument of this name describes no new node."""
    return name in _DESCRIBING and (
        value is None or (name == "attributes" and isinstance(value, Mapping) and not value)
    )


def check_group_arguments(arguments: Iterable[str]) -> None:
    """Raises InvalidInputError for an argument that groups do not have; those of zarr-python without effect are allowed."""
    for name in arguments:
        if name not in (
            "attributes",
            "entry_point",
            "use_consolidated",
            *zarr_arguments.NO_EFFECT,
            *zarr_arguments.NOTHING,
        ):
            raise InvalidInputError(f"{name} is not an argument of a group", hint="an array has a shape, or data")


def refuse_arguments(arguments: Mapping[str, object], mode: str) -> None:
    """Refuses arguments of create_array in modes that create nothing; arguments of zarr-python without effect are allowed. Raises InvalidInputError."""
    refused = [name for name in zarr_arguments.with_effect(arguments) if not describes_nothing(name, arguments[name])]
    if refused and mode in ("r", "r+"):
        raise InvalidInputError(
            f"{refused[0]} has no meaning with mode {mode!r}, which creates nothing",
            hint='use mode "a" or "w-"',
        )


def requires_copies(use_consolidated: object) -> bool:
    """Whether a group must have consolidated metadata. Text is the name of its document in Zarr v2, of which only the usual one is read. Raises
    InvalidInputError for another value."""
    if use_consolidated is None or isinstance(use_consolidated, bool):
        return bool(use_consolidated)
    if isinstance(use_consolidated, str) and use_consolidated == ".zmetadata":
        return True
    raise InvalidInputError(f"use_consolidated is {use_consolidated!r}; it must be True, False or None")


def to_read_copies(mode: Mode) -> Mode:
    """The mode of a group that must have consolidated metadata and so is not created. Raises InvalidInputError for a mode that always creates."""
    if mode in ("w", "w-"):
        raise InvalidInputError(
            f"a group that mode {mode!r} creates has no consolidated metadata", hint="leave use_consolidated out"
        )
    return "r+" if mode == "a" else mode


def refuse_lost(lost: str | None, path: str) -> None:
    """Raises AlreadyExistsError for the argument that lost_argument names, where a node exists."""
    if lost is not None:
        written = "array[...] = data" if lost == "data" else "node.attrs.update(...)"
        raise AlreadyExistsError(
            f"a node already exists, and the {lost} would be ignored",
            path=path or "/",
            hint=f'mode="a" opens what is there, and {written} writes; mode="w" replaces it',
        )
