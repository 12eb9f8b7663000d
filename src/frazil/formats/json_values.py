"""JSON values of repositories (attributes, properties), and their comparison. Each format defines their bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"


def same_json(left: Json, right: Json) -> bool:
    """Whether two values are the same JSON: in Python 1, 1.0 and True are equal, and a NaN does not equal itself."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same_json(value, right[name]) for name, value in left.items())
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same_json, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (isnan(left) and isnan(right))
    # true is not 1, and 1 is not 1.0
    kinds = [(isinstance(value, bool), isinstance(value, float)) for value in (left, right)]
    return kinds[0] == kinds[1] and left == right
