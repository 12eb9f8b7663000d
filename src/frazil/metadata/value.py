"""The base of the frozen values of this package: fields from `__slots__`, each set once. Derived classes define their meaning.

Dataclasses would do the same, but each costs 1 to 2 ms at import."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

# sets a field in constructors that run often, without the check whether it is set already
assign = object.__setattr__


class Value:
    """Equality, hash, repr and pickle over the fields in `__slots__`; a field that has a value cannot be set again.

    Mappings take part in equality, but not in the hash."""

    __slots__ = ()
    _names: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, excluded: tuple[str, ...] = (), **options: object) -> None:
        """excluded: fields that are not part of the value"""
        super().__init_subclass__(**options)
        every = [name for kind in reversed(cls.__mro__) for name in kind.__dict__.get("__slots__", ())]
        cls._names = tuple([name for name in every if name not in excluded])

    def __setattr__(self, name: str, value: object) -> None:
        if hasattr(self, name):
            raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be set again")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be deleted")

    def _fields(self) -> Iterator[tuple[str, object]]:
        for name in self._names:
            yield name, getattr(self, name)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, Value):
            return NotImplemented
        if self is not other:
            for name in self._names:
                ours, theirs = getattr(self, name), getattr(other, name)
                if ours is not theirs and ours != theirs:
                    return False
        return True

    def __hash__(self) -> int:
        fields = tuple(value for _, value in self._fields() if not isinstance(value, Mapping))
        return hash((type(self).__name__, fields))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._fields())})"
