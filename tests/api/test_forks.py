"""Forks: whose chunk files are whose, which forks a session takes back, and that a merge takes everything or says what is in the way."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frazil
from frazil.errors import ConflictError, InvalidInputError
from frazil.stores import MemoryStore

SIDE = 2**20 + 2**16  # bytes of a chunk that is a file of its own


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def repo(store: MemoryStore) -> frazil.Repository:
    return frazil.Repository.create(store)


def small(root: frazil.Group, name: str, value: int = 0) -> frazil.Array:
    array = root.create_array(name, shape=(8,), dtype="i4", chunks=(2,), fill_value=0)
    if value:
        array[...] = value
    return array


def large(root: frazil.Group, value: int = 0) -> frazil.Array:
    array = root.create_array("t", shape=(2 * SIDE,), dtype="u1", chunks=(SIDE,), codecs=[])
    if value:
        array[...] = value
    return array


def value_of(root: frazil.Group) -> int:
    (value,) = np.unique(root["t"][...]).tolist()
    return int(value)


def anew(store: MemoryStore) -> frazil.Group:
    """The root as somebody sees it who remembers nothing."""
    return frazil.Repository.open(store).readonly_session().root


# --- chunk files -----------------------------------------------------------------------------------------------------------------------


def test_a_fork_that_was_merged_is_discarded(repo: frazil.Repository, store: MemoryStore) -> None:
    session = repo.writable_session()
    large(session.root)
    fork = session.fork()
    fork.root["t"][...] = 3
    session.merge(fork)
    session.commit("x")
    fork.discard()
    assert value_of(anew(store)) == 3


def test_a_merged_fork_goes_on_writing(repo: frazil.Repository, store: MemoryStore) -> None:
    session = repo.writable_session()
    large(session.root)
    fork = session.fork()
    fork.root["t"][...] = 3
    session.merge(fork)
    session.commit("x")
    for value in range(20):
        fork.root["t"][...] = value
    del fork.root["t"]
    assert value_of(anew(store)) == 3


def test_a_parent_overwrites_what_a_fork_inherited(repo: frazil.Repository) -> None:
    session = repo.writable_session()
    large(session.root, 1)
    fork = session.fork()
    for value in range(2, 22):
        session.root["t"][...] = value
    assert value_of(fork.root) == 1
    session.discard()
    assert value_of(fork.root) == 1


def test_a_parent_overwrites_what_a_fork_gave(repo: frazil.Repository) -> None:
    session = repo.writable_session()
    large(session.root)
    fork = session.fork()
    fork.root["t"][...] = 3
    session.merge(fork)
    for value in range(4, 24):
        session.root["t"][...] = value
    session.discard()
    assert value_of(fork.root) == 3


def test_copies_of_a_fork_leave_each_other_their_files(repo: frazil.Repository, store: MemoryStore) -> None:
    session = repo.writable_session()
    large(session.root)
    fork = session.fork()
    fork.root["t"][...] = 3
    first, second = pickle.loads(pickle.dumps(fork)), copy.deepcopy(fork)
    for one in (fork, first):
        one.root["t"][...] = 4
        one.discard()
    assert value_of(second.root) == 3
    session.merge(second)
    second.discard()
    session.commit("x")
    assert value_of(anew(store)) == 3


def test_shared_files_are_shared_after_a_rebase(repo: frazil.Repository) -> None:
    with repo.transaction(message="first") as root:
        large(root)
    session = repo.writable_session()
    session.root["t"].append(np.full(SIDE, 7, "u1"))
    fork = session.fork()
    with repo.transaction(message="theirs") as root:
        root["t"].append(np.full(SIDE, 8, "u1"))
    session.rebase()
    for value in range(20):
        session.root["t"][2 * SIDE :] = value
    session.discard()
    assert (fork.root["t"][2 * SIDE :] == 7).all()


# --- whose fork ------------------------------------------------------------------------------------------------------------------------


def test_forks_of_forks_come_back_one_by_one(repo: frazil.Repository, store: MemoryStore) -> None:
    session = repo.writable_session()
    small(session.root, "t")
    fork = session.fork()
    fork.root["t"][0:2] = 2
    inner = pickle.loads(pickle.dumps(fork.fork()))
    inner.root["t"][2:4] = 3
    small(inner.root, "n", 4)
    fork.merge(inner)
    np.testing.assert_array_equal(fork.root["t"][...], [2, 2, 3, 3, 0, 0, 0, 0])
    session.merge(pickle.loads(pickle.dumps(fork)))
    session.commit("x")
    np.testing.assert_array_equal(anew(store)["t"][...], [2, 2, 3, 3, 0, 0, 0, 0])
    assert (anew(store)["n"][...] == 4).all()


def test_only_forks_of_these_changes_are_merged(repo: frazil.Repository) -> None:
    session, other = repo.writable_session(), repo.writable_session()
    small(session.root, "t")
    fork, nobody = session.fork(), other.fork()
    inner = fork.fork()
    for stranger in (nobody, inner, other, session):
        with pytest.raises(InvalidInputError, match="no fork of this session"):
            session.merge(fork, stranger)
    with pytest.raises(InvalidInputError, match="no fork"):
        pickle.loads(pickle.dumps(fork)).merge(inner)
    session.discard()
    with pytest.raises(InvalidInputError, match="no fork"):
        session.merge(fork)
    small(session.root, "t")
    fork = session.fork()
    session.merge(fork)
    session.commit("x")
    with pytest.raises(InvalidInputError, match="no fork"):
        session.merge(fork)


def test_a_rebase_leaves_forks_behind(repo: frazil.Repository) -> None:
    session = repo.writable_session()
    small(session.root, "t")
    fork = session.fork()
    session.rebase()
    session.merge(fork)
    with repo.transaction(message="theirs") as root:
        small(root, "n")
    session.rebase()
    with pytest.raises(InvalidInputError, match="no fork"):
        session.merge(fork)


def test_a_discarded_fork_gives_nothing(repo: frazil.Repository) -> None:
    session = repo.writable_session()
    small(session.root, "t", 5)
    fork = session.fork()
    fork.root["t"][...] = 6
    fork.discard()
    session.merge(fork)
    assert (session.root["t"][...] == 5).all()


# --- what meets what -------------------------------------------------------------------------------------------------------------------


def act(what: str) -> Callable[[frazil.Group], None]:
    """One change that a side makes: a word, and paths."""
    word, *paths = what.split()

    def made(root: frazil.Group) -> None:
        if word == "move":
            root.move(*paths)
        elif word == "array":
            small(root, paths[0], 9)
        elif word == "again":
            del root[paths[0]]
            small(root, paths[0], 8)
        elif word == "group":
            root.create_group(paths[0])
        elif word == "del":
            del root[paths[0]]
        elif word == "write":
            root[paths[0]][0:2] = 77
        elif word == "end":
            root[paths[0]][6:8] = 78
        elif word == "name":
            root[paths[0]].attrs["name"] = paths[1]
        else:
            root[paths[0]].resize((int(paths[1]),))

    return made


def listing(root: frazil.Group) -> dict[str, object]:
    """Every node: its attributes, and the values of arrays."""
    found = root.members(max_depth=None)
    return {
        path: (dict(node.attrs), node[...].tolist() if isinstance(node, frazil.Array) else None)  # type: ignore[union-attr]
        for path, node in found
    }


def start(repo: frazil.Repository, committed: bool) -> frazil.Session:
    """Arrays t and g/y, and groups g and h."""
    session = repo.writable_session()
    small(session.root, "t", 1)
    small(session.root, "g/y", 2)
    session.root.create_group("h")
    if committed:
        session.commit("first")
    return session


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("way", ["parent", "fork", "merged"])
@pytest.mark.parametrize(
    ("one", "other", "kinds"),
    [
        ("move t u", "array u", {"created"}),
        ("move t u", "move g u", {"created", "parent"}),
        ("move t u", "move t v", {"renamed"}),
        ("del g", "array g/x", {"changed", "parent"}),
        ("del g", "write g/y", {"changed", "deleted"}),
        ("del t", "write t", {"changed", "deleted"}),
        ("del t", "name t n", {"changed", "deleted"}),
        ("del t", "move t u", {"changed", "deleted"}),
        ("again t", "write t", {"changed", "deleted"}),
        ("again t", "again t", {"created"}),
        ("group g/x", "move g k", {"renamed", "parent"}),
        ("array g/x", "again g", {"changed", "parent"}),
        ("array h/x", "again h", {"changed", "parent"}),
        ("move t h/t", "del h", {"changed", "parent"}),
        ("name t n", "name t m", {"attributes"}),
        ("write t", "write t", {"chunks"}),
        ("resize t 4", "end t", {"changed", "deleted"}),
        ("resize t 4", "resize t 6", {"metadata"}),
    ],
)
def test_what_cannot_be_together(one: str, other: str, kinds: set[str], way: str, committed: bool) -> None:
    for first, second in ((one, other), (other, one)):
        session = start(frazil.Repository.create(MemoryStore()), committed)
        forks = [session.fork(), session.fork()]
        act(first)(session.root if way == "parent" else forks[0].root)
        act(second)(forks[1].root)
        if way == "merged":
            session.merge(forks[0])
        before = listing(session.root)
        with pytest.raises(ConflictError) as caught:
            session.merge(*(forks if way == "fork" else forks[1:]))
        assert {conflict.kind for conflict in caught.value.conflicts} <= kinds
        assert listing(session.root) == before


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("move t u", "write t"),
        ("move g k", "write g/y"),
        ("move g k", "name g/y n"),
        ("write t", "end t"),
        ("name t n", "resize t 12"),
        ("name t n", "write t"),
        ("resize t 4", "write t"),
        ("group k", "group k"),
        ("array k/a", "array k/b"),
        ("del t", "del t"),
        ("move t h/t", "name h n"),
        ("move t u", "move t u"),
    ],
)
def test_what_goes_together(one: str, other: str, committed: bool) -> None:
    """Either way round, with the same outcome, which is also committed."""
    found = []
    for first, second in ((one, other), (other, one)):
        store = MemoryStore()
        session = start(frazil.Repository.create(store), committed)
        forks = [session.fork(), session.fork()]
        act(first)(forks[0].root)
        act(second)(forks[1].root)
        session.merge(*forks)
        found.append(listing(session.root))
        session.commit("together")
        assert listing(anew(store)) == found[-1]
    assert found[0] == found[1]


def test_places_are_swapped_and_filled_again(repo: frazil.Repository, store: MemoryStore) -> None:
    session = start(repo, True)
    fork = session.fork()
    fork.root.move("t", "aside")
    fork.root.move("g", "t")
    fork.root.move("aside", "g")
    del fork.root["h"]
    small(fork.root, "h", 5)
    session.root["t"][0:2] = 3
    session.root["g/y"].attrs["name"] = "y"
    session.merge(fork)
    session.commit("x")
    assert listing(anew(store)) == {
        "g": ({}, [3, 3, 1, 1, 1, 1, 1, 1]),
        "h": ({}, [5] * 8),
        "t": ({}, None),
        "t/y": ({"name": "y"}, [2] * 8),
    }


# --- random changes, against a plain model ---------------------------------------------------------------------------------------------

PATHS = ("a", "b", "g", "g/x", "g/y", "g/d", "g/d/z", "h")
LENGTHS = (3, 4, 7)
ROOM = 8  # elements of a model's array; those beyond its length are 0
WORDS = ("array", "group", "array", "group", "move", "move", "del", "write", "write", "name", "resize")

changes = st.lists(
    st.tuples(st.sampled_from(WORDS), st.integers(0, len(PATHS) - 1), st.integers(0, len(PATHS) - 1)), max_size=5
)


class Modelled:
    """A node of the model: path and name; of an array, its length and values, else None."""

    def __init__(self, path: str, length: int | None) -> None:
        self.path, self.name, self.length = path, 0, length
        self.values = None if length is None else [0] * ROOM

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Modelled) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment] # it changes


class Model:
    """Nodes by numbers that no two nodes share, and a session that is changed with them."""

    def __init__(self, session: frazil.Session, numbers: count[int], nodes: dict[int, Modelled]) -> None:
        self.session, self.numbers, self.nodes = session, numbers, nodes

    def fork(self) -> Model:
        return Model(self.session.fork(), self.numbers, copy.deepcopy(self.nodes))

    def at(self, path: str) -> Modelled | None:
        return next((node for node in self.nodes.values() if node.path == path), None)

    def below(self, path: str) -> list[int]:
        return [key for key, node in self.nodes.items() if f"{node.path}/".startswith(f"{path}/")]

    def is_free(self, path: str) -> bool:
        """Whether a node may be made there, with the groups above it."""
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
        """One change, where it can be made."""
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
    """Two changes that cannot both be there."""


def either(begun: object, ours: object, theirs: object) -> object:
    if theirs in (begun, ours):
        return ours
    if ours != begun:
        raise Together
    return theirs


def united(begun: dict[int, Modelled], ours: dict[int, Modelled], theirs: dict[int, Modelled]) -> dict[int, Modelled]:
    """All that both changed. Raises Together."""
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
    """The same, where groups of one path that both made are one. Raises Together for what is no hierarchy."""
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


@settings(max_examples=60, deadline=None)
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
    assert listing(anew(store)) == parent.listing()
