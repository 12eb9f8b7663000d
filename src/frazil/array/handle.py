"""The base class of handles, their attributes and equality, and tokens that identify the content of an array. dask uses tokens in the names of tasks that read
an array (`__dask_tokenize__`).

Equal tokens mean equal content; equal handles mean the same node, not equal chunks. Chunks in plain stores have no version; docs/design/019-dask.md has the
consequences."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from frazil.array.hierarchy.nodes import NodeLocation
from frazil.base import missing_names
from frazil.errors import InvalidInputError, NotFoundError, shown
from frazil.metadata.json_text import copied
from frazil.metadata.model import ArrayMetadata, GroupMetadata
from frazil.stores.locations import StorePath
from frazil.stores.store import Store

if TYPE_CHECKING:
    from typing import Self

Update = Callable[[dict[str, object]], dict[str, object]]


def token_of(location: NodeLocation, shape: tuple[int, ...], own: str) -> tuple[object, ...]:
    """The token of an array. In a repository: its location and the snapshot, and with uncommitted changes the handle's own token. In a plain store: its
    location, its document with version, and for a writable handle its own token. One request in a plain store; raises StoreError."""
    if location.nodes is not None:
        begun, changes = location.nodes.version
        token = ("frazil.Array", location.path, shape, begun)
        return (*token, changes, own) if changes else token
    document = location.store.get_versioned(location.layout.document_key(location.path, ArrayMetadata))
    token = ("frazil.Array", location.path, shape, (location.store, location.transformers, document))
    return token if location.read_only else (*token, own)


# --- handles -----------------------------------------------------------------------------------------------------------------------

# the location of a handle's node, and its document as the handle knows it; an attribute of Array, a property of Group
_identity: Final = attrgetter("_location", "_metadata")
_place: Final = attrgetter("path", "layout", "transformers", "nodes")


class Handle:
    """Base class of Array and Group: what every node has."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def _location(self) -> NodeLocation: ...

        @property
        def metadata(self) -> ArrayMetadata | GroupMetadata:
            """The metadata document, as a frozen value."""

    else:

        def __getattr__(self, name: str) -> object:
            """The error for an unknown name; for one of zarr-python it names the equivalent."""
            kind = type(self).__name__
            raise AttributeError(
                f"{kind!r} object has no attribute {name!r}{missing_names.hint(kind, name)}",
                name=name,
                obj=self,
            )

    @property
    def path(self) -> str:
        """Path of the node in its store; "" at the root."""
        return self._location.path

    @property
    def name(self) -> str:
        """The path with a slash before it; "/" at the root."""
        return f"/{self.path}"

    @property
    def basename(self) -> str:
        """Last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def store(self) -> Store:
        """The store in which the node is."""
        return self._location.store

    @property
    def store_path(self) -> StorePath:
        """The store and the path in it, as a location."""
        return StorePath(self.store, self.path)

    @property
    def read_only(self) -> bool:
        """True if the node was opened for reading; every write then raises ReadOnlyError."""
        return self._location.read_only

    @property
    def attrs(self) -> Attributes:
        """The attributes, as a mapping that writes through."""
        return Attributes(self)

    @abstractmethod
    def change_attributes(self, update: Update) -> None:
        """Writes the attributes that `update` returns for the stored ones; it may be called several times. Raises ReadOnlyError, MetadataError, StoreError."""

    def update_attributes(self, new_attributes: Mapping[str, object]) -> Self:
        """Adds attributes, or replaces those of the same name; self."""
        self.attrs.update(new_attributes)
        return self

    def __eq__(self, other: object) -> bool:
        """Whether both are handles of one node, opened in the same way (in a repository: through the same session), and know the same document. Mode, limits
        and caches do not matter."""
        if not isinstance(other, Handle) or type(self) is not type(other):
            return False
        (location, document), (other_location, other_document) = _identity(self), _identity(other)
        return _same_node(location, other_location) and bool(document == other_document)

    def __hash__(self) -> int:
        return hash((type(self), _identity(self)[0].path))


def _same_node(location: NodeLocation, other: NodeLocation) -> bool:
    if _place(location) != _place(other):
        return False
    if location.store is other.store or location.nodes is not None:
        return True
    store = location.store.identity
    return store is not None and store == other.store.identity


# --- attributes --------------------------------------------------------------------------------------------------------------------


class Attributes(MutableMapping[str, object]):
    """JSON values by name. Every change is written at once, to the attributes that are stored at that time. `update` writes several changes together.

    Values are copies, also within lists and objects: to change one, assign it again."""

    __slots__ = ("_owner",)

    def __init__(self, owner: Handle) -> None:
        self._owner = owner

    def __getitem__(self, name: str) -> object:
        attributes = self._owner.metadata.user_attributes
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
        """Replaces all attributes in one write; in Zarr v2 also `_ARRAY_DIMENSIONS`, the names of the dimensions."""
        new = _as_dict(attributes)
        self._owner.change_attributes(lambda _: dict(new))

    def asdict(self) -> dict[str, object]:
        """All attributes, as a new dict."""
        return {name: copied(value) for name, value in self._owner.metadata.user_attributes.items()}

    def __iter__(self) -> Iterator[str]:
        return iter(self._owner.metadata.user_attributes)

    def __len__(self) -> int:
        return len(self._owner.metadata.user_attributes)

    def _ipython_key_completions_(self) -> list[str]:
        """Names, to complete `attrs["` with the tabulator key."""
        return list(self)

    def __repr__(self) -> str:
        return f"Attributes({dict(self._owner.metadata.user_attributes)!r})"


def _as_dict(*others: object, **more: object) -> dict[str, object]:
    try:
        return dict(*others, **more)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"attributes must be a mapping, or pairs: {error}", path="attributes") from error
