"""A table of the limits and errors of other implementations: tests skip these cases for that peer, with the reason.

A row describes the cases to which it applies. Cases that a peer refuses are still tried, so that an outdated row fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from tests.foreign.interop.cases import Case, Entry, member

Doing = Literal["read", "write", "create"]


class Refusal(NamedTuple):
    """applies: whether it applies to a case; doing: only when the peer does one of these; before: only for versions of the peer before this one; wrong: the
    peer's result is wrong, so that it is not tried."""

    peers: tuple[str, ...]
    reason: str
    applies: Callable[[Case], bool]
    doing: tuple[Doing, ...] = ("create", "write", "read")
    before: tuple[int, ...] = (10**6,)
    wrong: bool = False


def names(entry: Entry) -> list[str]:
    """Its name and those of the codecs within."""
    inner = [name for part in ("codecs", "index_codecs") for codec in member(entry, part) for name in names(codec)]
    return [str(entry["name"]), *inner]


def all_names(case: Case) -> list[str]:
    return [name for entry in case.codecs for name in names(entry)]


def sharded(case: Case) -> bool:
    return "sharding_indexed" in all_names(case)


def seen_otherwise(case: Case) -> bool:
    """Whether an inner shape fits the chunk only after the transpositions before it."""
    for chunk, codecs in case.levels():
        for entry in codecs:
            if entry["name"] == "sharding_indexed":
                inner = member(entry, "chunk_shape")
                if any(extent % part for extent, part in zip(chunk, inner, strict=True)):
                    return True
    return False


def behind_shards(case: Case) -> bool:
    return any(
        entry["name"] == "sharding_indexed" and entry is not codecs[-1]
        for _, codecs in case.levels()
        for entry in codecs
    )


def blosc_of_encoded(case: Case) -> bool:
    """Whether blosc follows another bytes-to-bytes codec."""
    for _, codecs in case.levels():
        serializer = [entry["name"] in {"bytes", "sharding_indexed"} for entry in codecs].index(True)
        if any(entry["name"] == "blosc" for entry in codecs[serializer + 2 :]):
            return True
    return False


def transposes_nothing(case: Case) -> bool:
    return not case.shape and "transpose" in all_names(case)


def big_endian(case: Case) -> bool:
    _, codecs = list(case.levels())[-1]
    return any(member(entry, "endian") == "big" for entry in codecs)


def raw(case: Case) -> bool:
    return case.dtype[0] == "r"


REFUSALS = (
    Refusal(
        ("zarr-python", "zarrs"),
        "zarr-python compares the inner shape with the chunk as it is before the transposition",
        seen_otherwise,
    ),
    Refusal(("zarr-python", "zarrs"), "zarr-python has no r*", raw),
    Refusal(
        ("zarr-python",),
        "zarr-python before 3.3 cannot write shards without dimensions",
        lambda case: not case.shape and sharded(case),
        ("write",),
        before=(3, 3),
    ),
    Refusal(("zarrs",), "zarrs does not read a transposition of no dimensions", transposes_nothing),
    Refusal(
        ("zarrs",),
        "zarrs turns a big-endian complex number around as a whole, and swaps its parts",
        lambda case: case.dtype.startswith("complex") and big_endian(case),
        wrong=True,
    ),
    Refusal(
        ("zarrs",),
        "zarrs cannot read a part of what blosc made of something compressed, not even its own",
        blosc_of_encoded,
        wrong=True,
    ),
    Refusal(
        ("tensorstore",),
        "tensorstore has no codecs of numcodecs",
        lambda case: any(name.startswith("numcodecs.") for name in all_names(case)),
    ),
    Refusal(("tensorstore",), "tensorstore takes no codec behind shards", behind_shards),
    Refusal(
        ("tensorstore",),
        "tensorstore reads the fill value of r* in base64 only",
        lambda case: raw(case) and isinstance(case.fill, list),
    ),
)


def refusal(peer: str, version: tuple[int, ...], case: Case, doing: Doing) -> Refusal | None:
    """The first row that applies to a peer's action."""
    for row in REFUSALS:
        if peer in row.peers and doing in row.doing and version < row.before and row.applies(case):
            return row
    return None
