"""Checks of arguments that many calls share. Each error names the wrong argument. creation/array_metadata.py checks the arguments that describe a new array."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

import numpy as np

from frazil.codecs.registry import Registry, RuntimeTransformer
from frazil.errors import InvalidInputError
from frazil.runtime import DEFAULT, Runtime

T = TypeVar("T")


class _DefaultFill:
    """The type of DEFAULT_FILL."""

    def __repr__(self) -> str:
        return "zero"


DEFAULT_FILL: Final = _DefaultFill()  # the fill value is left out; None is null in Zarr v2


def check_flag(value: object, name: str) -> None:
    """Raises InvalidInputError unless a flag, which may decide what is stored, is True or False."""
    if not isinstance(value, bool):
        raise InvalidInputError(f"{name} is {value!r}; it must be True or False")


def check_mapping(value: object, name: str) -> None:
    """Raises InvalidInputError for a value that is not a mapping of names."""
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"{name} is {value!r}; it must be a mapping", path=name)
    for key in value:
        if not isinstance(key, str):
            raise InvalidInputError(f"{name} has the key {key!r}; keys must be text", path=name)


def check_depth(value: object, name: str = "max_depth") -> None:
    """Raises InvalidInputError for a value that is not a number of levels, or of nodes."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if value is not None and not (whole and value >= 0):  # type: ignore[operator] # which is whole
        raise InvalidInputError(f"{name} is {value!r}; it must be a whole number from 0, or None for all")


def check_sequence(value: Sequence[T], name: str) -> tuple[T, ...]:
    """A list or tuple as a tuple. Raises InvalidInputError for anything else."""
    if not isinstance(value, (list, tuple)):
        raise InvalidInputError(f"{name} is {value!r}; it must be a list", path=name)
    return tuple(value)


def check_transformers(value: Sequence[RuntimeTransformer], name: str) -> tuple[RuntimeTransformer, ...]:
    """Storage transformers that a user adds at opening. Raises InvalidInputError for objects that cannot make a store from a store."""
    transformers = check_sequence(value, name)
    for transformer in transformers:
        if not callable(transformer):
            raise InvalidInputError(f"{name} has {transformer!r}; each must make a store of a store", path=name)
    return transformers


def check_surroundings(registry: object, runtime: object) -> None:
    """Raises InvalidInputError for a registry that is not a Registry, and for a runtime that is not a Runtime or has unusable values."""
    if not isinstance(registry, Registry):
        raise InvalidInputError(f"registry is {registry!r}; it must be a frazil.Registry")
    if not isinstance(runtime, Runtime):
        raise InvalidInputError(f"runtime is {runtime!r}; it must be a frazil.Runtime")
    if runtime is not DEFAULT:
        runtime.checked()


def checked_progress(progress: object) -> Callable[[int], object]:
    """The function that receives progress; one that does nothing for None. Raises InvalidInputError for a value that is not a function."""
    if progress is None:
        return lambda _: None
    if not callable(progress):
        raise InvalidInputError(f"progress is {progress!r}; it must be a function of a number of bytes, or None")
    return progress
