"""How a handle writes shards: options of its user that no document has. What they mean is told in docs/design/043-shard-writer.md."""

from __future__ import annotations

from typing import Final, cast

from frazil.codecs.inner_order import Order
from frazil.errors import InvalidInputError, shown
from frazil.record import Record

__all__ = ["ShardOptions", "checked_options"]

_ORDERS: Final = ("written", "C", "F", "morton")


class ShardOptions(Record):
    """inner_order: of the inner chunks in shards that are written."""

    inner_order: Order = "written"


def checked_options(inner_order: object) -> ShardOptions:
    """Raises InvalidInputError for an option that does not exist."""
    if not isinstance(inner_order, str) or inner_order not in _ORDERS:
        raise InvalidInputError(f"inner_order is {shown(inner_order)}; it must be one of {', '.join(_ORDERS)}")
    return ShardOptions(cast("Order", inner_order))
