"""User extensions that raise any exception or return invalid results: the error is ours, names the extension (and the chunk, if a codec ran on one), and has
the user's exception as its cause."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

import frazil
from frazil import Registry
from frazil.codecs import ArrayToArray, ArrayToBytes, BytesToBytes
from frazil.codecs.registry import DEFAULT_REGISTRY
from frazil.errors import ChunkDecodeError, DataError, FrazilError, InvalidInputError
from frazil.extensions import DataType, Extension, NamedExtension, RegularGrid
from frazil.stores import MemoryStore

RUBBISH = [
    None,
    5,
    -1,
    "x",
    b"",
    b"zz",
    [],
    (),
    {},
    ...,
    [None],
    np.zeros(3),
    KeyError("boom"),
    AttributeError("boom"),
]
URI = "https://e.org/users"


def gives(answer: object) -> Any:
    """A function that returns or raises this for any arguments."""

    def give(*_: object, **__: object) -> object:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return give


class Turned(ArrayToArray):
    name = "users.one"
    changes: ClassVar[dict[str, Any]] = {}

    def configuration(self) -> None:
        return None

    def encoded_spec(self, spec: Any, path: str) -> Any:
        return spec

    def encode(self, array: Any, spec: Any) -> Any:
        return array

    def decode(self, array: Any, spec: Any) -> Any:
        return array


class Plain(ArrayToBytes):
    name = "users.one"

    def configuration(self) -> None:
        return None

    def encode(self, array: Any, spec: Any) -> Any:
        return array.tobytes()

    def decode(self, data: bytes, spec: Any) -> Any:
        return np.frombuffer(data, spec.dtype).reshape(spec.shape)


class Same(BytesToBytes):
    name = "users.one"

    def configuration(self) -> None:
        return None

    def encode(self, data: bytes) -> Any:
        return data

    def decode(self, data: bytes, limit: int) -> Any:
        return data


def error_of(act: Callable[[], object], answer: object, name: str = "users.one") -> FrazilError | None:
    """The error, if there is one: ours, with the user's as its cause."""
    error: FrazilError | None = None
    try:
        act()
    except FrazilError as caught:
        error = caught
    if isinstance(answer, Exception):
        assert error is not None
        assert error.__cause__ is answer
        assert name in str(error)
    return error


def chain(kind: type[Any]) -> list[Any]:
    return [kind()] if kind is Plain else [kind(), "bytes"] if kind is Turned else ["bytes", kind()]


@pytest.mark.parametrize("kind", [Turned, Plain, Same])
@pytest.mark.parametrize("answer", RUBBISH, ids=repr)
@pytest.mark.parametrize("sharded", [False, True])
def test_codecs_at_work(kind: type[Any], answer: object, sharded: bool) -> None:
    store = MemoryStore()
    layout: dict[str, Any] = {"chunks": 2, "shards": 4 if sharded else None, "codecs": chain(kind)}
    whole = Registry.with_codec(DEFAULT_REGISTRY, kind)
    frazil.create_array(store, data=np.arange(1, 9), registry=whole, **layout)
    wrong = type("Wrong", (kind,), {"encode": gives(answer), "decode": gives(answer)})
    array = frazil.open_array(store, "r+", registry=DEFAULT_REGISTRY.with_codec(wrong))
    for read in (lambda: array[5], lambda: array[4:6], lambda: array.oindex[[4, 5]]):
        error = error_of(read, answer)
        assert isinstance(error, DataError)
        assert error.chunk == (2,)
    error = error_of(lambda: array.__setitem__(slice(4, 6), 7), answer)
    assert error is not None or answer in ([], b"", b"zz") or kind is not Turned
    if error is not None and (not sharded or isinstance(answer, Exception)):
        assert isinstance(error, InvalidInputError | ChunkDecodeError)
    other = frazil.create_array(MemoryStore(), shape=8, dtype="i8", registry=whole, **layout)
    refusing = frazil.open_array(other.store, "r+", registry=DEFAULT_REGISTRY.with_codec(wrong))
    error = error_of(lambda: refusing.__setitem__(slice(4, 8), 7), answer)
    if not isinstance(answer, bytes):
        assert isinstance(error, InvalidInputError)
        assert "users.one" in str(error)
        assert error.chunk == (2,)


@pytest.mark.parametrize("kind", [Turned, Plain, Same])
@pytest.mark.parametrize(
    "method", ["encoded_spec", "check", "encoded_size", "bound", "native", "from_configuration", "__init__"]
)
def test_codecs_at_opening(kind: type[Any], method: str) -> None:
    store = MemoryStore()
    frazil.create_array(
        store, data=np.arange(8), chunks=2, codecs=chain(kind), registry=DEFAULT_REGISTRY.with_codec(kind)
    )
    is_called = method in ("from_configuration", "__init__")
    for answer in RUBBISH:
        wrong = DEFAULT_REGISTRY.with_codec(type("Wrong", (kind,), {method: gives(answer)}))
        error = error_of(lambda: frazil.open_array(store, registry=wrong), answer if is_called else None)  # noqa: B023
        assert error is None or isinstance(error, InvalidInputError), answer
        assert error is not None or not is_called or (method == "__init__" and answer is None), answer


# --- what documents name ---------------------------------------------------------------------------------------------------------------


class Two(DataType):
    def __init__(self) -> None:
        super().__init__("users.two", np.dtype("u2"), ((0, 2, 1),))

    def parse_bytes(self, value: Any, path: str) -> Any:
        return b"\0\0"

    def emit_bytes(self, data: bytes) -> Any:
        return 0

    def user_bytes(self, value: object, path: str) -> Any:
        return b"\0\0"


class TwoFamily:
    names = ("users.two",)

    def __init__(self, **changes: Any) -> None:
        self.__dict__.update(changes)

    def matches(self, name: str) -> Any:
        return name in ("users.two", URI)

    def parse(self, extension: Extension, path: str) -> Any:
        return Two()

    def from_numpy(self, dtype: Any) -> Any:
        return None


def final(**members: object) -> MemoryStore:
    store = MemoryStore()
    frazil.create_array(store, data=np.arange(8, dtype="u2"), chunks=2, codecs=["bytes"])
    store.set("zarr.json", json.dumps(json.loads(store.get("zarr.json") or b"") | members).encode())
    return store


def draft(**members: object) -> MemoryStore:
    store = MemoryStore()
    frazil.create_array(store, data=np.arange(8, dtype="u2"), chunks=2, codecs=[], zarr_format="draft")
    document = json.loads(store.get("meta/array.json") or b"") | members
    store.set("meta/array.json", json.dumps(document).encode())
    return store


@pytest.mark.parametrize("answer", RUBBISH, ids=repr)
def test_data_types(answer: object) -> None:
    ours = DEFAULT_REGISTRY.with_data_type(TwoFamily())
    extension = {"extension": URI, "type": "two"}
    for store in (final(data_type="users.two"), draft(data_type=extension)):
        frazil.open_array(store, registry=ours)
        families = [TwoFamily(parse=gives(answer)), TwoFamily(matches=gives(answer))]
        families += [
            TwoFamily(parse=gives(type("Wrong", (Two,), {method: gives(answer)})()))
            for method in ("parse_bytes", "emit_bytes", "user_bytes", "extension")
        ]
        for name in ("dtype", "swaps", "name"):
            wrong = Two()
            object.__setattr__(wrong, name, answer)
            families.append(TwoFamily(parse=gives(wrong)))
        for i, family in enumerate(families):
            registry = DEFAULT_REGISTRY.with_data_type(family)
            error = error_of(
                lambda r=registry, s=store: frazil.open_array(s, registry=r)[...], answer if i < 2 else None, ""
            )  # type: ignore[misc]
            assert error is None or isinstance(error, InvalidInputError)
            if i < 1:
                assert error is not None
            error = error_of(
                lambda r=registry: frazil.create_array(
                    MemoryStore(), shape=2, dtype="users.two", fill_value=3, registry=r
                ),
                None,  # type: ignore[misc]
            )
            assert error is None or isinstance(error, InvalidInputError)
        registry = DEFAULT_REGISTRY.with_data_type(TwoFamily(from_numpy=gives(answer)))
        error = error_of(lambda: frazil.create_array(MemoryStore(), shape=2, dtype="u2", registry=registry), answer, "")  # noqa: B023
        assert (error is None) == (answer is None)


@pytest.mark.parametrize("answer", RUBBISH, ids=repr)
def test_grids_and_keys(answer: object) -> None:
    grid, keys = {"name": "users.grid"}, {"name": "users.keys"}
    for method in (None, "check", "grid_shape", "extension"):
        made = answer if method is None else type("Wrong", (RegularGrid,), {method: gives(answer)})(2)
        registry = DEFAULT_REGISTRY.with_chunk_grid(NamedExtension("users.grid", gives(made)))
        error = error_of(
            lambda r=registry: frazil.open_array(final(chunk_grid=grid), registry=r)[...],
            answer if method is None else None,
            "users.grid",
        )  # type: ignore[misc]
        assert (method is not None and error is None) or isinstance(error, InvalidInputError)
    registry = DEFAULT_REGISTRY.with_chunk_key_encoding(NamedExtension("users.keys", gives(answer)))
    error = error_of(lambda: frazil.open_array(final(chunk_key_encoding=keys), registry=registry), answer, "users.keys")
    assert isinstance(error, InvalidInputError)
    for method in ("encode_one", "encode_all", "decode"):
        own = {name: gives(None) for name in ("encode_one", "decode")} | {"encode_all": lambda self, at, prefix: []}
        own |= {"extension": lambda self: Extension("users.keys"), method: gives(answer)}
        registry = DEFAULT_REGISTRY.with_chunk_key_encoding(
            NamedExtension("users.keys", gives(type("Keys", (), own)()))
        )
        array = frazil.open_array(final(chunk_key_encoding=keys), "r+", registry=registry)
        for act in (
            lambda a=array: a[...],
            lambda a=array: a[1],
            lambda a=array: a.__setitem__(..., 1),
            lambda a=array: a.nchunks_initialized,
        ):  # type: ignore[misc]
            error = error_of(act, None)
            assert error is None or isinstance(error, InvalidInputError)
        if method == "encode_all" and not (isinstance(answer, list) and not answer):
            assert "users.keys" in str(error_of(lambda a=array: a[...], None))  # type: ignore[misc]


@pytest.mark.parametrize("answer", RUBBISH, ids=repr)
def test_functions_that_are_registered(answer: object) -> None:
    generic = [{"extension": URI, "must_understand": True}]
    transformer = [{"extension": URI, "type": "t"}]
    layout, give = {"extension": URI, "type": "l"}, gives(answer)
    for registry, store in (
        (DEFAULT_REGISTRY.with_array_extension(URI, give), draft(extensions=generic)),
        (DEFAULT_REGISTRY.with_storage_transformer(URI, give), draft(storage_transformers=transformer)),
        (DEFAULT_REGISTRY.with_memory_layout(URI, give), draft(chunk_memory_layout=layout)),
    ):
        error = error_of(lambda r=registry, s=store: frazil.open_array(s, registry=r)[...], answer, URI)  # type: ignore[misc]
        assert error is None or isinstance(error, FrazilError)
    store = draft()
    entry = json.loads(store.get("zarr.json") or b"")
    encoding = {"extension": URI, "type": "e", "metadata_key_suffix": ".json"}
    for registry, member in (
        (DEFAULT_REGISTRY.with_hierarchy_extension(URI, give), {"extensions": generic}),
        (DEFAULT_REGISTRY.with_metadata_encoding(URI, give), {"metadata_encoding": encoding}),
    ):
        store.set("zarr.json", json.dumps(entry | member).encode())
        error = error_of(lambda r=registry: frazil.open_array(store, registry=r)[...], answer, URI)  # type: ignore[misc]
        assert error is not None or answer == {}
    added = error_of(lambda: frazil.open_array(draft(), storage_transformers=[give]), answer, "")
    assert added is not None or answer == {}
