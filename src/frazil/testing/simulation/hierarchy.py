"""A Zarr hierarchy as a plain dict of NumPy arrays, and the changes that clients make to it: the model of a simulation.

The model uses no code of repositories. Merging two sets of changes is in merged_changes.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from random import Random
from typing import Final, TypeAlias

import numpy as np

from frazil.array.array import Array
from frazil.array.group import Group
from frazil.base.arrays import Values
from frazil.base.record import Record

Uid: TypeAlias = "tuple[str, int]"  # of a node, permanent: its creator, and its number there
Found: TypeAlias = "Mapping[str, tuple[Values | None, dict[str, object]]]"  # result of reading: values (None: a group) and attributes, by path
Shapes: TypeAlias = "Mapping[str, tuple[int, ...] | None]"  # of all nodes by path; None: a group

NAMES: Final = ("a", "b", "c")
PATHS: Final = (*NAMES, *(f"{one}/{other}" for one in NAMES[:2] for other in NAMES))
KINDS: Final[Mapping[str, Mapping[str, object]]] = {
    "inline": {"shape": (7,), "chunks": (3,), "dtype": "i4", "fill_value": 0},
    "filed": {"shape": (1800,), "chunks": (600,), "dtype": "u1", "fill_value": 0, "codecs": ["bytes"]},
    "sharded": {"shape": (6, 4), "chunks": (2, 2), "shards": (4, 4), "dtype": "i2", "fill_value": 0},
    "empty": {"shape": (0, 2), "chunks": (2, 2), "dtype": "i4", "fill_value": 0},
}
_LONGEST: Final = 3000  # elements along the first axis; longer arrays are not appended to


class Node(Record):
    """values: None for a group; chunk: the shape of what is stored as one object; uid: stays the same when the node is moved"""

    uid: Uid
    values: Values | None = None
    chunk: tuple[int, ...] = ()
    attributes: Mapping[str, object] = {}


State: TypeAlias = "Mapping[str, Node]"  # by path; "" is the root


class Act(Record):
    """One change.

    name    the kind of change: one of those of `choose`
    path    of the node
    to      the new path, the kind of the new array, or the name of the attribute
    box     (first, behind the last) along each axis of the written box; only the new length for an append or a resize
    value   the written value: different in all acts of a run"""

    name: str
    path: str
    to: str = ""
    box: tuple[tuple[int, int], ...] = ()
    value: int = 0


def shapes(state: State) -> Shapes:
    """The nodes of a state, in the form that `choose` takes."""
    return {path: None if node.values is None else node.values.shape for path, node in state.items()}


def above(path: str) -> Iterator[str]:
    """The paths of the groups above a node, the root last."""
    while path:
        path = path.rpartition("/")[0]
        yield path


def choose(random: Random, names: Sequence[str], present: Shapes) -> Act | None:
    """A change with one of these names that is possible with these nodes; None if the change that was drawn is not."""
    name, value = random.choice(names), random.randrange(1, 100_000)
    if name in ("array", "group"):
        path = random.choice(PATHS)
        return Act(name, path, random.choice(list(KINDS)), value=value) if _is_free(present, path) else None
    if name == "attribute":
        return Act(name, random.choice(sorted(present)), random.choice(NAMES), value=value)
    if name in ("remove", "move", "swap"):
        return _choose_node_change(random, present, name)
    arrays = sorted(path for path, shape in present.items() if shape)
    if not arrays:
        return None
    path = min(random.choice(arrays), random.choice(arrays))  # the first ones more often, so that changes conflict
    shape = present[path] or ()
    if name in ("append", "unappend"):
        return (
            Act(name, path, box=((shape[0], shape[0] + random.randrange(1, 5)),), value=value)
            if shape[0] < _LONGEST
            else None
        )
    if name == "resize":
        return Act(name, path, box=((shape[0], random.randrange(12)),), value=value)
    if 0 in shape:
        return None
    low = [random.randrange(extent) for extent in shape]
    box = tuple((first, random.randrange(first, extent) + 1) for first, extent in zip(low, shape, strict=True))
    return Act(name, path, box=box, value=value)


def _choose_node_change(random: Random, present: Shapes, name: str) -> Act | None:
    paths = sorted(path for path in present if path)
    if not paths:
        return None
    path = random.choice(paths)
    if name == "remove":
        return Act(name, path) if random.random() < 0.5 else None
    to = random.choice(paths if name == "swap" else PATHS)
    if to.startswith(path + "/") or path.startswith(to + "/") or to == path:
        return None
    if name == "swap":
        return Act(name, path, to)
    return Act(name, path, to) if _is_free(present, to) else None


def _is_free(present: Shapes, path: str) -> bool:
    """Whether a node can be created there."""
    return path not in present and all(present.get(up) is None for up in above(path))


# --- in a repository ---------------------------------------------------------------------------------------------------------------------


def act_on(root: Group, act: Act, handles: Mapping[str, Array] | None = None) -> None:
    """Makes a change. handles: of arrays that were opened before, which are used instead of new ones"""
    if act.name == "group":
        root.create_group(act.path)
    elif act.name == "array":
        array = root.create_array(act.path, **KINDS[act.to])  # type: ignore[arg-type] # keywords of each kind
        if act.value % 3:
            array[...] = act.value % 100
    elif act.name == "remove":
        del root[act.path]
    elif act.name == "move":
        root.move(act.path, act.to)
    elif act.name == "swap":
        for path, to in ((act.path, _SWAP_NAME), (act.to, act.path), (_SWAP_NAME, act.to)):
            root.move(path, to)
    elif act.name == "attribute":
        (root[act.path] if act.path else root).attrs[act.to] = act.value
    else:
        array = root[act.path] if handles is None or act.path not in handles else handles[act.path]  # type: ignore[assignment] # `choose` names arrays
        _write(array, act)


_SWAP_NAME: Final = "swapped"


def _write(array: Array, act: Act) -> None:
    selection = tuple(slice(*extent) for extent in act.box)
    if act.name == "write":
        array[selection] = act.value % 100 + 1
    elif act.name == "undo":
        before = array[selection]
        array[selection] = act.value % 100 + 1
        array[selection] = before
    elif act.name == "resize":
        array.resize((act.box[0][1], *array.shape[1:]))
    else:
        count = act.box[0][1] - act.box[0][0]
        array.append(np.full((count, *array.shape[1:]), act.value % 100 + 1, array.dtype))
        if act.name == "unappend":
            array.resize((array.shape[0] - count, *array.shape[1:]))


def read(root: Group) -> dict[str, tuple[Values | None, dict[str, object]]]:
    """The content of a hierarchy: values (None: a group) and attributes by path. The root is ""."""
    found: dict[str, tuple[Values | None, dict[str, object]]] = {"": (None, dict(root.attrs))}
    for path, node in root.members(None):
        found[path] = (np.asarray(node[...]) if isinstance(node, Array) else None, dict(node.attrs))
    return found


def difference(found: Found, state: State) -> str | None:
    """How the result of reading differs from a state; None if it does not."""
    if sorted(found) != sorted(state):
        return f"nodes are {sorted(found)}, not {sorted(state)}"
    for path, node in state.items():
        values, attributes = found[path]
        if attributes != node.attributes:
            return f"attributes of {path!r} are {attributes}, not {dict(node.attributes)}"
        if (values is None) != (node.values is None):
            return f"{path!r} is of another kind"
        if values is not None and node.values is not None and not np.array_equal(values, node.values):
            return f"values of {path!r} are {_values_text(values)}, not {_values_text(node.values)}"
    return None


def _values_text(values: Values) -> str:
    if values.ndim == 1 and values.size > 20:  # in runs
        edges = [0, *(np.flatnonzero(np.diff(values)) + 1).tolist(), len(values)]
        return "[" + ", ".join(f"{values[low]} x {high - low}" for low, high in pairwise(edges)) + "]"
    return str(values.tolist())


# --- in the model ------------------------------------------------------------------------------------------------------------------------


def acted(state: State, act: Act, maker: str, number: int) -> dict[str, Node]:
    """The state after a change. maker, number: for the uids of new nodes, different for each call"""
    changed = dict(state)
    if act.name in ("group", "array"):
        node = Node((maker, number * 8))
        if act.name == "array":
            kind = KINDS[act.to]
            values = np.zeros(kind["shape"], kind["dtype"])  # type: ignore[call-overload] # as `kind` says
            if act.value % 3:
                values[...] = act.value % 100
            node = node._replace(values=values, chunk=kind.get("shards", kind["chunks"]))  # type: ignore[arg-type]
        _add_groups(changed, act.path, maker, number)
        changed[act.path] = node
    elif act.name == "remove":
        for path in _below(changed, act.path):
            del changed[path]
    elif act.name == "move":
        _add_groups(changed, act.to, maker, number)
        _move(changed, act.path, act.to)
    elif act.name == "swap":
        for path, to in ((act.path, _SWAP_NAME), (act.to, act.path), (_SWAP_NAME, act.to)):
            _move(changed, path, to)
    elif act.name == "attribute":
        node = changed[act.path]
        changed[act.path] = node._replace(attributes={**node.attributes, act.to: act.value})
    else:
        node = changed[act.path]
        assert node.values is not None
        changed[act.path] = node._replace(values=_written(node.values, act))
    return changed


def _written(values: Values, act: Act) -> Values:
    if act.name in ("undo", "unappend"):
        return values
    if act.name == "write":
        values = values.copy()
        values[tuple(slice(*extent) for extent in act.box)] = act.value % 100 + 1
        return values
    length = act.box[0][1]
    padded = np.zeros((length, *values.shape[1:]), values.dtype)
    common = min(length, len(values))
    padded[:common] = values[:common]
    if act.name == "append":
        padded[len(values) :] = act.value % 100 + 1
    return padded


def _below(state: State, path: str) -> list[str]:
    return [at for at in sorted(state) if at == path or at.startswith(path + "/")]


def _move(state: dict[str, Node], path: str, to: str) -> None:
    for at in _below(state, path):
        state[to + at[len(path) :]] = state.pop(at)


def _add_groups(state: dict[str, Node], path: str, maker: str, number: int) -> None:
    for depth, at in enumerate(above(path), 1):
        if at not in state:
            state[at] = Node((maker, number * 8 + depth))
