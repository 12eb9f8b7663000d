"""A group as a data store of xarray: its arrays as variables, and datasets written into it.

new_variables.py decides how each variable is written, before anything is written. `store`, which xarray calls, only plans; `make` creates the arrays, and the
writer writes elements."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import xarray
from xarray import conventions
from xarray.backends import AbstractDataStore

from frazil.api.destinations import check_storable
from frazil.api.nodes import create_group
from frazil.array.array import Array
from frazil.array.group import Group
from frazil.array.hierarchy.stored_document import change_to_its_end
from frazil.base.record import Record
from frazil.errors import (
    ConflictError,
    FrazilError,
    InvalidInputError,
    MetadataError,
    NotFoundError,
    UnknownExtensionError,
    shown,
)
from frazil.integrations.xarray.attributes import encode_attributes
from frazil.integrations.xarray.layout import Layout
from frazil.integrations.xarray.locations import joined
from frazil.integrations.xarray.new_variables import (
    Planned,
    Target,
    check_new_names,
    create,
    encoded_variable,
    matched_to_existing,
    planned_lengths,
    planned_variable,
    variable_name,
)
from frazil.integrations.xarray.variables import CodecEntries, dimensions_of, group_attributes, variable_of
from frazil.integrations.xarray.writer import Writer
from frazil.stores.array_storage.node_store import NodeStore
from frazil.stores.memory import MemoryStore

if TYPE_CHECKING:
    from xarray import Variable


def members_of(
    group: Group, drop_variables: str | Iterable[str] | None, depth: int | None
) -> Iterator[tuple[str, Array | Group]]:
    """Paths and nodes below a group, as Group.members has them, except the arrays with these names, which need not be readable. Raises MetadataError for other
    arrays that cannot be read."""
    if drop_variables is not None and not isinstance(drop_variables, Iterable):
        raise InvalidInputError(f"drop_variables is {shown(drop_variables)}; it must be a name, or a list of names")
    dropped = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables or ())
    try:
        found = list(group.members(depth))
    except (MetadataError, UnknownExtensionError) as error:
        error.hint = f"drop_variables= leaves out variables that cannot be read; {error.hint}"
        if not dropped:
            raise
        found = list(group.members(depth, skip_unreadable=True))
        looked = {"": group, **{path: node for path, node in found if isinstance(node, Group) and depth is None}}
        paths = {path for path, _ in found}
        for path, node in looked.items():
            if any(name not in dropped and f"{path}/{name}".strip("/") not in paths for name in node):
                raise
    return ((path, node) for path, node in found if isinstance(node, Group) or path.rpartition("/")[2] not in dropped)


class _Grown(Record):
    """An array whose shape changed from `before` to `after`. base: the snapshot of the session then; None in a plain store"""

    array: Array
    before: tuple[int, ...]
    after: tuple[int, ...]
    base: object


def _base(array: Array) -> object:
    nodes = array._location.nodes
    return None if nodes is None else nodes.version[0]


class FrazilDataStore(AbstractDataStore):
    """One group.

    group   opened for writing, if data is to be written; None: it does not exist yet, or is replaced
    arrays  of the group, by name; None: they are looked up when they are first needed
    fill_as_mask  as for variables.variable_of
    target  the options of the write; None: those of mode "a", the defaults"""

    __slots__ = ("_arrays", "_attributes", "_fill_as_mask", "_group", "_grown", "_new", "_plans", "_target")

    def __init__(
        self,
        group: Group | None,
        *,
        arrays: Mapping[str, Array] | None = None,
        fill_as_mask: bool | None = None,
        target: Target | None = None,
    ) -> None:
        self._group = group
        self._arrays = arrays
        self._fill_as_mask = fill_as_mask
        self._target = target or Target("a", None, None, Layout(None, None), safe_chunks=True, align_chunks=False)
        self._plans: Sequence[Planned] = ()
        self._new: Sequence[str] = ()
        self._grown: list[_Grown] = []
        self._attributes: Mapping[str, object] = {}

    @property
    def arrays(self) -> Mapping[str, Array]:
        """The arrays in the group, by name."""
        if self._arrays is None:
            self._arrays = {} if self._group is None else dict(self._group.arrays())
        return self._arrays

    # --- reading -------------------------------------------------------------------------------------------------------------------

    def get_variables(self) -> dict[str, Variable]:
        entries: CodecEntries = {}
        return {
            name: variable_of(array, fill_as_mask=self._fill_as_mask, entries=entries)
            for name, array in self.arrays.items()
        }

    def variable(self, name: str) -> Variable:
        """One variable, not decoded. Raises NotFoundError."""
        if name not in self.arrays:
            raise NotFoundError(f"there is no variable {name!r} in the group", path=name)
        return variable_of(self.arrays[name], fill_as_mask=self._fill_as_mask)

    def get_attrs(self) -> dict[str, object]:
        return {} if self._group is None else group_attributes(self._group.attrs.asdict())

    def get_dimensions(self) -> dict[str, int]:
        """Lengths of all dimensions. Raises InvalidInputError if two arrays disagree."""
        lengths: dict[str, int] = {}
        for name, array in self.arrays.items():
            for dimension, length in zip(dimensions_of(array), array.shape, strict=True):
                if lengths.setdefault(dimension, length) != length:
                    raise InvalidInputError(
                        f"found conflicting lengths for dimension {dimension} ({length} != {lengths[dimension]})",
                        path=name,
                    )
        return lengths

    # --- writing -------------------------------------------------------------------------------------------------------------------

    def store(
        self,
        variables: Mapping[Hashable, Variable],
        attributes: Mapping[Hashable, object],
        check_encoding_set: Collection[Hashable] = frozenset(),
        writer: object = None,
        unlimited_dims: Collection[Hashable] | None = None,
    ) -> None:
        """Plans how these variables are written. Nothing is changed.

        check_encoding_set  variables whose encoding may not have unknown entries
        Raises InvalidInputError, MetadataError."""
        if unlimited_dims is not None:
            raise InvalidInputError("Zarr has no unlimited dimensions", hint="leave unlimited_dims out")
        self._plans = self._planned(variables, check_encoding_set)
        self._attributes = encode_attributes(attributes, None)

    def try_out(self, root: Group | None, below: str = "") -> None:
        """Creates the planned arrays in memory, and looks up their names in the store: checks everything that is new before anything at the target is changed
        or removed.

        root  a group that exists or is to be created, and the path of this group below it;  None: it cannot be created, which creating it reports
        Raises the errors of creating arrays."""
        base, path = (root, below) if self._group is None else (self._group, "")
        trial = create_group(MemoryStore(), zarr_format=3 if base is None else base.metadata.zarr_format)
        create(trial, self._plans)
        trial.attrs.put(self._attributes)
        if base is not None:
            check_storable(base._location, [joined(path, plan.name) for plan in self._plans if plan.existing is None])

    def make(self, group: Group, writer: Writer) -> None:
        """Creates or grows the planned arrays in a group, and passes their elements to the writer. Raises the errors of creating and resizing."""
        self._grown, self._new = [], [plan.name for plan in self._plans if plan.existing is None]
        try:
            created = create(group, self._plans)
        except FrazilError:  # nothing was created
            self._new = ()
            raise
        if self._target.mode != "r+" and group.attrs.asdict() != self._attributes:
            group.attrs.put(self._attributes)
        for plan in self._plans:
            array = created[plan.name] if plan.existing is None else plan.existing
            if plan.shape is not None:
                self._grow(array, plan.shape)
            writer.add(plan.data, array, plan.region)

    def _grow(self, array: Array, shape: tuple[int, ...]) -> None:
        grown = _Grown(array, array.shape, shape, _base(array))
        if grown.base is not None:  # nobody else grows it to this shape meanwhile
            self._grown.append(grown)

        def grow() -> None:
            array._resize(shape, expected=grown.before)
            if grown.base is None:
                self._grown.append(grown)

        try:
            change_to_its_end(array._location, grow)
        except ConflictError:
            self._grown = [other for other in self._grown if other is not grown]
            raise

    def undo(self, group: Group) -> None:
        """After elements could not be written: gives arrays that `make` grew their lengths again, unless others changed them meanwhile, or the session was
        rebased; and removes those that it created in a session. Elsewhere new arrays stay: another process may have replaced them."""
        for array, before, after, base in reversed(self._grown):
            if _base(array) == base:
                with suppress(FrazilError):
                    array._resize(before, expected=after)
        for name in self._new if isinstance(group.store, NodeStore) else ():
            with suppress(FrazilError):
                group.remove(name)

    def _planned(self, variables: Mapping[Hashable, Variable], checked: Collection[Hashable]) -> list[Planned]:
        target = self._target
        names = {key: variable_name(key) for key in variables}
        present = self.arrays
        check_new_names(target, [name for name in names.values() if name not in present])
        dimension = target.append_dim
        if dimension is not None and dimension not in present and dimension not in (lengths := self.get_dimensions()):
            raise InvalidInputError(
                f"append_dim={dimension!r} does not match any existing dataset dimensions {lengths}",
                hint=None if lengths else "nothing is there to append to: leave append_dim out of the first write",
            )
        existing, _, _ = conventions.decode_cf_variables(
            {key: self.variable(name) for key, name in names.items() if name in present}, {}
        )
        plans: list[Planned] = []
        for key, variable in variables.items():
            if key in existing:
                variable = matched_to_existing(names[key], variable, existing[key], present[names[key]], target)
                if target.mode == "a-" and dimension is not None and dimension not in variable.dims:
                    continue
            else:
                variable = encoded_variable(variable, names[key])
            plans.append(planned_variable(names[key], variable, present.get(names[key]), target, key in checked))
        _check_lengths(present, plans, target)
        return plans

    def coordinate(self, name: str) -> xarray.Variable:
        """A variable, decoded and loaded."""
        return conventions.decode_cf_variable(name, self.variable(name).compute())


def _check_lengths(present: Mapping[str, Array], plans: Sequence[Planned], target: Target) -> None:
    """Raises InvalidInputError for a write after which the group is no dataset, because a dimension has two lengths: of a variable that is not appended to, or
    of a new one. A group that has them already may be written."""
    before = {name: found for name, array in present.items() if (found := _named_lengths(array)) is not None}
    after = before | {plan.name: planned_lengths(plan, before.get(plan.name)) for plan in plans}
    old, new = _first_by_length(before), _first_by_length(after)
    for dimension, lengths in new.items():
        if dimension != target.append_later and len(lengths) > 1 and len(old.get(dimension, ())) < 2:
            (one, name), (other, second) = list(lengths.items())[:2]
            later = ", or in a session" if dimension == target.append_dim else ""
            raise InvalidInputError(
                f"after this write the dimension {dimension!r} would have length {one} in variable {name!r} and {other} in {second!r}",
                path=second,
                hint=f"write all variables with the dimension {dimension!r} whole in one call{later}, or rename it in the new ones",
            )


def _named_lengths(array: Array) -> Mapping[str, int] | None:
    """The lengths of the dimensions of an array; None if they have no names."""
    try:
        return dict(zip(dimensions_of(array), array.shape, strict=True))
    except NotFoundError:
        return None


def _first_by_length(variables: Mapping[str, Mapping[str, int]]) -> dict[str, dict[int, str]]:
    """By dimension and length, the first variable that has it."""
    found: dict[str, dict[int, str]] = {}
    for name, lengths in variables.items():
        for dimension, length in lengths.items():
            found.setdefault(dimension, {}).setdefault(length, name)
    return found
