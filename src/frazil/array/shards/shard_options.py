"""Options of the user for how a handle writes shards. They are not in the document (docs/design/043-shard-writer.md, docs/design/044-shards-in-place.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, cast

from frazil.base.record import Record
from frazil.codecs.bytes_to_bytes.crc32c import Crc32c
from frazil.codecs.codec import Codec
from frazil.errors import InvalidInputError, shown
from frazil.stores.local.local_store import LocalStore
from frazil.stores.store import Store

if TYPE_CHECKING:
    from frazil.codecs.chain.compiled_chain import Chain
    from frazil.codecs.sharding.inner_order import Order

Strategy = Literal["rewrite", "append", "in_place"]
_ORDERS: Final = ("written", "C", "F", "morton")
_STRATEGIES: Final = ("rewrite", "append", "in_place")


class ShardOptions(Record):
    """inner_order: of the inner chunks in written shards; shard_writes: how an existing shard is changed; inherited: the options are those of a group, and
    arrays below it that do not allow shard_writes use "rewrite"."""

    inner_order: Order = "written"
    shard_writes: Strategy = "rewrite"
    inherited: bool = False


DEFAULT_OPTIONS: Final = ShardOptions()


def checked_options(inner_order: object, shard_writes: object = "rewrite") -> ShardOptions:
    """Raises InvalidInputError for an option that does not exist."""
    if not isinstance(inner_order, str) or inner_order not in _ORDERS:
        raise InvalidInputError(f"inner_order is {shown(inner_order)}; it must be one of {', '.join(_ORDERS)}")
    if not isinstance(shard_writes, str) or shard_writes not in _STRATEGIES:
        raise InvalidInputError(f"shard_writes is {shown(shard_writes)}; it must be one of {', '.join(_STRATEGIES)}")
    if inner_order == "written" and shard_writes == "rewrite":
        return DEFAULT_OPTIONS
    return ShardOptions(cast("Order", inner_order), cast("Strategy", shard_writes))


def options_below(group: ShardOptions, inner_order: object, shard_writes: object) -> ShardOptions:
    """The options of an array below a group; None: as the group. Raises InvalidInputError for an option that does not exist."""
    order = group.inner_order if inner_order is None else inner_order
    if shard_writes is None:
        return checked_options(order, group.shard_writes)._replace(inherited=group.inherited)
    return checked_options(order, shard_writes)


def check_location(options: ShardOptions, store: Store, transformed: bool, path: str) -> None:
    """Raises InvalidInputError where the store does not allow shards to be changed in place. transformed: whether there are storage transformers, or a
    repository"""
    option = f'shard_writes="{options.shard_writes}"'
    if options.shard_writes == "rewrite":
        return
    if transformed or not isinstance(store, LocalStore) or type(store).fetch is not LocalStore.fetch:
        raise InvalidInputError(
            f"{option} works only in plain hierarchies on a local disk",
            path=path or "/",
            hint='in repositories, buckets and through transformers shards are replaced whole: shard_writes="rewrite"',
        )


def check_strategy(options: ShardOptions, chain: Chain, codecs: Sequence[Codec], path: str) -> None:
    """Raises InvalidInputError where the codecs of an array do not allow shards to be changed in place. codecs: those of an inner chunk"""
    strategy, option = options.shard_writes, f'shard_writes="{options.shard_writes}"'
    if not chain.levels or not chain.levels[0].addressable:
        raise InvalidInputError(
            f"{option} needs shards whose inner chunks can be read one by one; the array has none", path=path or "/"
        )
    after = chain.levels[0].index_codecs.after
    if strategy == "append" and not any(isinstance(codec, Crc32c) for codec in after):
        raise InvalidInputError(
            f"{option} needs a checksum of the shard index, by which readers detect an index that is being written",
            path=path or "/",
            hint="create the array with crc32c among its index_codecs, which is the default",
        )
    fixed = len(chain.levels) == 1 and all(isinstance(codec, Crc32c) for codec in codecs if codec._part == 2)
    if strategy == "in_place" and not fixed:
        raise InvalidInputError(
            f"{option} needs inner chunks of one size",
            path=path or "/",
            hint="create it without compression; crc32c is possible",
        )
