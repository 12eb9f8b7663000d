"""Records behave like typing.NamedTuple."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from typing import NamedTuple, get_type_hints

import pytest

from frazil.base.record import Record
from frazil.runtime import Runtime


class Point(Record):
    """A place."""

    x: int
    y: int = 2
    name: str = "here"

    @property
    def sum(self) -> int:
        return self.x + self.y


class Twin(NamedTuple):
    x: int
    y: int = 2
    name: str = "here"


class Nothing(Record):
    """No fields."""


CALLS: list[Callable[[Callable[..., object]], object]] = [
    lambda make: make(1),
    lambda make: make(1, 3),
    lambda make: make(1, 3, "there"),
    lambda make: make(y=5, x=4),
    lambda make: make(1, name="there"),
]
WRONG_CALLS: list[Callable[[Callable[..., object]], object]] = [
    lambda make: make(),
    lambda make: make(1, 2, "3", 4),
    lambda make: make(y=1),
    lambda make: make(1, x=1),
    lambda make: make(1, z=1),
]


@pytest.mark.parametrize("call", CALLS)
def test_values(call: Callable[[Callable[..., object]], object]) -> None:
    record, twin = call(Point), call(Twin)
    assert isinstance(record, Point)
    assert isinstance(twin, Twin)
    assert tuple(record) == tuple(twin)
    assert record == twin
    assert hash(record) == hash(twin)
    assert repr(record) == repr(twin).replace("Twin", "Point")
    assert record._asdict() == twin._asdict()
    assert (record.x, record.y, record.name) == (twin.x, twin.y, twin.name)
    assert record.sum == twin.x + twin.y
    assert pickle.loads(pickle.dumps(record)) == record
    assert type(copy.deepcopy(record)) is Point


@pytest.mark.parametrize("call", WRONG_CALLS)
def test_wrong_calls(call: Callable[[Callable[..., object]], object]) -> None:
    with pytest.raises(TypeError) as of_twin:
        call(Twin)
    with pytest.raises(TypeError) as of_record:
        call(Point)
    assert str(of_record.value).replace("Point", "Twin") == str(of_twin.value)


def test_the_class_tells_what_it_is() -> None:
    assert Point._fields == Twin._fields == Point.__match_args__
    assert Point._field_defaults == Twin._field_defaults
    assert str(inspect.signature(Point)) == "(x, y=2, name='here')"
    assert get_type_hints(Point) == {"x": int, "y": int, "name": str}
    assert Point.__doc__ == "A place."
    assert Point._make([1, 2, "a"]) == Point(1, 2, "a")


def test_replacing() -> None:
    assert Point(1)._replace(y=7) == Point(1, 7)
    assert Point(1)._replace() == Point(1)
    with pytest.raises(TypeError, match="no field 'z'"):
        Point(1)._replace(z=1)  # type: ignore[call-arg]


def test_records_are_frozen() -> None:
    point = Point(1)
    for name in ("x", "other"):
        with pytest.raises(AttributeError):
            setattr(point, name, 3)
    assert not hasattr(point, "__dict__")
    assert Nothing() == ()


def test_matching() -> None:
    match Point(1):
        case Point(x, y, name="here"):
            assert (x, y) == (1, 2)
        case _:
            pytest.fail("a record is not matched")


def test_invalid_classes_are_refused() -> None:
    with pytest.raises(TypeError, match="without a default"):
        type(Record)("Odd", (Record,), {"__annotations__": {"a": "int", "b": "int"}, "a": 1})
    with pytest.raises(TypeError, match="more than 15"):
        type(Record)("Long", (Record,), {"__annotations__": {f"field_{i}": "int" for i in range(16)}})


def test_values_of_the_project_are_records() -> None:
    assert Runtime(threads=2)._replace(cache_bytes=5) == (2, 64, 2**26, 5)
