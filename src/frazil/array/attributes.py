"""The attributes of a node as a mapping that writes through to its document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Protocol

from frazil.errors import InvalidInputError, NotFoundError, shown
from frazil.metadata.json_text import copied

Update = Callable[[dict[str, object]], dict[str, object]]


class Owner(Protocol):
    """The array or group that attributes belong to."""

    def read_attributes(self) -> Mapping[str, object]:
        """The attributes as they are known: those of the metadata, which are not to be changed."""

    def change_attributes(self, update: Update) -> None:
        """Writes the attributes that `update` returns for the stored ones."""


class Attributes(MutableMapping[str, object]):
    """JSON values by name. Every change is written at once, to the attributes that are stored at that time. `update` writes several changes together.

    Values are copies, also within lists and objects: to change one, assign it again."""

    __slots__ = ("_owner",)

    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    def __getitem__(self, name: str) -> object:
        attributes = self._owner.read_attributes()
        if not isinstance(name, str) or name not in attributes:
            raise NotFoundError(f"there is no attribute {shown(name)}")
        return copied(attributes[name])

    def __setitem__(self, name: str, value: object) -> None:
        if not isinstance(name, str):
            raise InvalidInputError(f"the name of an attribute is {shown(name)}; it must be text", path="attributes")
        self._owner.change_attributes(lambda attributes: {**attributes, name: value})

    def __delitem__(self, name: str) -> None:
        def without(attributes: dict[str, object]) -> dict[str, object]:
            if not isinstance(name, str) or name not in attributes:
                raise NotFoundError(f"there is no attribute {shown(name)}")
            return {key: value for key, value in attributes.items() if key != name}

        self._owner.change_attributes(without)

    def update(self, *others: object, **more: object) -> None:
        """Adds or replaces several attributes in one write."""
        new = _as_dict(*others, **more)
        self._owner.change_attributes(lambda attributes: {**attributes, **new})

    def put(self, attributes: Mapping[str, object]) -> None:
        """Replaces all attributes in one write."""
        new = _as_dict(attributes)
        self._owner.change_attributes(lambda _: dict(new))

    def asdict(self) -> dict[str, object]:
        """All attributes, as a new dict."""
        return {name: copied(value) for name, value in self._owner.read_attributes().items()}

    def __iter__(self) -> Iterator[str]:
        return iter(self._owner.read_attributes())

    def __len__(self) -> int:
        return len(self._owner.read_attributes())

    def _ipython_key_completions_(self) -> list[str]:
        """Names, to complete `attrs["` with the tabulator key."""
        return list(self)

    def __repr__(self) -> str:
        return f"Attributes({dict(self._owner.read_attributes())!r})"


def _as_dict(*others: object, **more: object) -> dict[str, object]:
    try:
        return dict(*others, **more)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"attributes must be a mapping, or pairs: {error}", path="attributes") from error
