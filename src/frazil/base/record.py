"""Records: small frozen tuples with named fields. The derived classes define what the fields mean.

To a type checker a Record is typing.NamedTuple, and it does the same, as fast. But each class of NamedTuple costs 0.15 ms or more at import, as it compiles its
constructor and every annotation; a Record combines ready code with the names of the fields (docs/design/011-done-once.md)."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, TypeVar

__all__ = ["Record", "by_value"]

if TYPE_CHECKING:
    from typing import NamedTuple as Record
else:
    try:  # the standard library reads fields of named tuples with this: twice as fast as a property
        from _collections import _tuplegetter as _field
    except ImportError:
        from operator import itemgetter

        def _field(at, doc):
            return property(itemgetter(at), doc=doc)

    _new = tuple.__new__
    # the constructor for each number of fields; their names are put in
    _CONSTRUCTORS = (
        lambda cls: _new(cls, ()),
        lambda cls, a: _new(cls, (a,)),
        lambda cls, a, b: _new(cls, (a, b)),
        lambda cls, a, b, c: _new(cls, (a, b, c)),
        lambda cls, a, b, c, d: _new(cls, (a, b, c, d)),
        lambda cls, a, b, c, d, e: _new(cls, (a, b, c, d, e)),
        lambda cls, a, b, c, d, e, f: _new(cls, (a, b, c, d, e, f)),
        lambda cls, a, b, c, d, e, f, g: _new(cls, (a, b, c, d, e, f, g)),
        lambda cls, a, b, c, d, e, f, g, h: _new(cls, (a, b, c, d, e, f, g, h)),
        lambda cls, a, b, c, d, e, f, g, h, i: _new(cls, (a, b, c, d, e, f, g, h, i)),
        lambda cls, a, b, c, d, e, f, g, h, i, j: _new(cls, (a, b, c, d, e, f, g, h, i, j)),
        lambda cls, a, b, c, d, e, f, g, h, i, j, k: _new(cls, (a, b, c, d, e, f, g, h, i, j, k)),
        lambda cls, a, b, c, d, e, f, g, h, i, j, k, l: _new(cls, (a, b, c, d, e, f, g, h, i, j, k, l)),
        lambda cls, a, b, c, d, e, f, g, h, i, j, k, l, m: _new(cls, (a, b, c, d, e, f, g, h, i, j, k, l, m)),
        lambda cls, a, b, c, d, e, f, g, h, i, j, k, l, m, n: _new(cls, (a, b, c, d, e, f, g, h, i, j, k, l, m, n)),
        lambda cls, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o: _new(
            cls, (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o)
        ),
    )
    _FIELDS = tuple([_field(at, None) for at in range(len(_CONSTRUCTORS))])

    class _RecordType(type):
        """The type of classes of records: fields from the annotations of the body, in their order, defaults from its values."""

        def __new__(meta, name, bases, body):
            fields = tuple(body.get("__annotations__", ()))
            defaults = {field: body[field] for field in fields if field in body}
            if tuple(defaults) != fields[len(fields) - len(defaults) :]:
                raise TypeError(f"{name}: a field without a default follows a field with one")
            if len(fields) >= len(_CONSTRUCTORS):
                raise TypeError(f"{name} has more than {len(_CONSTRUCTORS) - 1} fields")
            code = _CONSTRUCTORS[len(fields)].__code__.replace(
                co_varnames=("cls", *fields), co_name="__new__", co_qualname=f"{name}.__new__"
            )
            body["__new__"] = FunctionType(code, globals(), "__new__", tuple(defaults.values()))
            body["__slots__"] = ()
            body["__match_args__"] = body["_fields"] = fields
            body["_field_defaults"] = defaults
            body["_places"] = {field: at for at, field in enumerate(fields)}
            body.update(zip(fields, _FIELDS, strict=False))
            return super().__new__(meta, name, bases, body)

    class Record(tuple, metaclass=_RecordType):
        """The base of records: class Point(Record): x: int; y: int = 0."""

        __slots__ = ()

        @classmethod
        def _make(cls, values):
            return cls(*values)

        def _replace(self, /, **changes):
            values, places = list(self), self._places
            for field, value in changes.items():
                if field not in places:
                    raise TypeError(f"{type(self).__name__} has no field {field!r}")
                values[places[field]] = value
            return _new(type(self), values)

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __getnewargs__(self):
            return tuple(self)

        def __repr__(self):
            return (
                f"{type(self).__name__}({', '.join([f'{field}={value!r}' for field, value in self._asdict().items()])})"
            )


Kind = TypeVar("Kind", bound="tuple[object, ...]")


def by_value(kind: type[Kind]) -> type[Kind]:
    """Makes records that hold NumPy arrays equal if the arrays have equal shapes and bytes. Tuples compare arrays element by element, and fail."""

    def values(record: tuple[object, ...]) -> tuple[object, ...]:
        return tuple([(value.shape, value.tobytes()) if hasattr(value, "tobytes") else value for value in record])  # type: ignore[attr-defined] # a NumPy array

    def equal(value: Kind, other: object) -> bool:
        return isinstance(other, kind) and values(value) == values(other)

    methods = {"__eq__": equal, "__ne__": lambda *both: not equal(*both), "__hash__": lambda value: hash(values(value))}
    for name, method in methods.items():
        setattr(kind, name, method)
    return kind
