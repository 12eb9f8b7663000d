"""Random changes by a session and two forks of it, against a plain model: a merge takes all changes of both sides, or none and names the conflict."""

from __future__ import annotations

import copy
import pickle
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil.errors import ConflictError
from frazil.stores import MemoryStore
from tests.api.test_forks import listing, reopened_root

pytestmark = pytest.mark.usefixtures("each_format")


PATHS = ("a", "b", "g", "g/x", "g/y", "g/d", "g/d/z", "h")
LENGTHS = (3, 4, 7)
ROOM = 8  # elements of a model's array; those beyond its length are 0
WORDS = ("array", "group", "array", "group", "move", "move", "del", "write", "write", "name", "resize")

changes = st.lists(
    st.tuples(st.sampled_from(WORDS), st.integers(0, len(PATHS) - 1), st.integers(0, len(PATHS) - 1)), max_size=5
)


class Modelled:
    """A node of the model: path and name. For an array its length and values, else None."""

    def __init__(self, path: str, length: int | None) -> None:
        self.path, self.name, self.length = path, 0, length
        self.values = None if length is None else [0] * ROOM

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Modelled) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment] # it changes


class Model:
    """Nodes by unique numbers, and a session that is changed with them."""

    def __init__(self, session: frazil.Session, numbers: count[int], nodes: dict[int, Modelled]) -> None:
        self.session, self.numbers, self.nodes = session, numbers, nodes

    def fork(self) -> Model:
        return Model(self.session.fork(), self.numbers, copy.deepcopy(self.nodes))

    def at(self, path: str) -> Modelled | None:
        return next((node for node in self.nodes.values() if node.path == path), None)

    def below(self, path: str) -> list[int]:
        return [key for key, node in self.nodes.items() if f"{node.path}/".startswith(f"{path}/")]

    def is_free(self, path: str) -> bool:
        """Whether a node may be created there, with the groups above it."""
        parts = path.split("/")
        groups = [self.at("/".join(parts[:end])) for end in range(1, len(parts))]
        return self.at(path) is None and all(group is None or group.length is None for group in groups)

    def add(self, path: str, length: int | None) -> None:
        parts = path.split("/")
        for end in range(1, len(parts)):
            if self.at("/".join(parts[:end])) is None:
                self.nodes[next(self.numbers)] = Modelled("/".join(parts[:end]), None)
        self.nodes[next(self.numbers)] = Modelled(path, length)

    def change(self, word: str, which: int, other: int) -> None:
        """One change, if it is possible."""
        root, path, to = self.session.root, PATHS[which], PATHS[other]
        node = self.at(path)
        if word in ("array", "group"):
            if self.is_free(path):
                length = LENGTHS[other % len(LENGTHS)] if word == "array" else None
                self.add(path, length)
                if length is None:
                    root.create_group(path)
                else:
                    root.create_array(path, shape=(length,), dtype="i4", chunks=(2,), fill_value=0)
        elif node is None:
            return
        elif word == "del":
            for key in self.below(path):
                del self.nodes[key]
            del root[path]
        elif word == "move":
            if self.is_free(to) and not to.startswith(f"{path}/"):
                moved = self.below(path)
                self.add(to, None)
                del self.nodes[max(self.nodes)]
                for key in moved:
                    self.nodes[key].path = to + self.nodes[key].path[len(path) :]
                root.move(path, to)
        elif word == "name":
            node.name = next(self.numbers)
            root[path].attrs["name"] = node.name
        elif node.length is not None and node.values is not None:
            self._change_array(word, path, node, other)

    def _change_array(self, word: str, path: str, node: Modelled, other: int) -> None:
        array = self.session.root[path]
        assert isinstance(array, frazil.Array) and node.length is not None and node.values is not None
        if word == "write":
            at = other % node.length
            node.values[at] = next(self.numbers)
            array[at] = node.values[at]
        else:
            node.length = LENGTHS[other % len(LENGTHS)]
            node.values[node.length :] = [0] * (ROOM - node.length)
            array.resize((node.length,))

    def listing(self) -> dict[str, object]:
        return {
            node.path: ({"name": node.name} if node.name else {}, node.values[: node.length] if node.values else None)
            for node in self.nodes.values()
        }


class Together(Exception):
    """Two changes that cannot be combined."""


def either(begun: object, ours: object, theirs: object) -> object:
    if theirs in (begun, ours):
        return ours
    if ours != begun:
        raise Together
    return theirs


def united(begun: dict[int, Modelled], ours: dict[int, Modelled], theirs: dict[int, Modelled]) -> dict[int, Modelled]:
    """All changes of both sides. Raises Together."""
    made: dict[int, Modelled] = {}
    for key in begun.keys() | ours.keys() | theirs.keys():
        sides = [side[key] for side in (ours, theirs) if key in side]
        if key not in begun:
            made[key] = copy.deepcopy(sides[0])
        elif len(sides) == 2:
            made[key] = united_node(begun[key], *sides)
        elif sides and sides[0] != begun[key]:
            raise Together
    return settled(made, {key for key in made if key in theirs and key not in begun})


def united_node(begun: Modelled, ours: Modelled, theirs: Modelled) -> Modelled:
    made = copy.deepcopy(ours)
    for field in ("path", "name", "length"):
        setattr(made, field, either(getattr(begun, field), getattr(ours, field), getattr(theirs, field)))
    if begun.values is not None and ours.values is not None and theirs.values is not None:
        made.values = [either(*values) for values in zip(begun.values, ours.values, theirs.values, strict=True)]  # type: ignore[misc]
        if any(made.values[made.length :]):
            raise Together
    return made


def settled(nodes: dict[int, Modelled], new: set[int]) -> dict[int, Modelled]:
    """The same, but groups that both sides created at one path become one. Raises Together if the result is not a hierarchy."""
    by_path: dict[str, int] = {}
    for key in sorted(nodes, key=lambda key: key in new):
        node = nodes[key]
        there = by_path.setdefault(node.path, key)
        if there != key and not (key in new and node.length is None and node == nodes[there]):
            raise Together
    for path in by_path:
        above = path.rpartition("/")[0]
        if above and (above not in by_path or nodes[by_path[above]].length is not None):
            raise Together
    return {key: nodes[key] for key in by_path.values()}


@given(st.lists(changes, min_size=7, max_size=7), st.booleans(), st.booleans())
def test_a_merge_is_all_or_nothing(parts: list[list[tuple[str, int, int]]], travels: bool, together: bool) -> None:
    store = MemoryStore()
    parent = Model(frazil.Repository.create(store).writable_session(), count(1), {})

    def make(model: Model, part: list[tuple[str, int, int]]) -> None:
        for one in part:
            model.change(*one)

    for path in ("a", "g", "g/x"):
        parent.change("group" if path == "g" else "array", PATHS.index(path), 1)
    make(parent, parts[0])
    parent.session.commit("first", allow_empty=True)
    make(parent, parts[1])
    forks, begun = [], []
    for part in parts[2:4]:
        begun.append(copy.deepcopy(parent.nodes))
        forks.append(parent.fork())
        make(parent, part)
    for fork, part in zip(forks, parts[4:6], strict=True):
        make(fork, part)
        if travels:
            fork.session = pickle.loads(pickle.dumps(fork.session))
    for group in [forks] if together else [[fork] for fork in forks]:
        expected: dict[int, Modelled] | None = parent.nodes
        for fork in group:
            try:
                assert expected is not None
                expected = united(begun[forks.index(fork)], expected, fork.nodes)
            except Together:
                expected = None
                break
        try:
            parent.session.merge(*[fork.session for fork in group])
        except ConflictError:
            pass
        else:
            assert expected is not None, "this cannot be"
            parent.nodes = expected
        assert listing(parent.session.root) == parent.listing()
    make(parent, parts[6])
    parent.session.commit("last", allow_empty=True)
    assert listing(reopened_root(store)) == parent.listing()
