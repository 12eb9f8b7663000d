"""Shards in the state after an append was killed while it wrote."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from frazil import _kernel

JOURNAL = ".__append.__lock"


def journal_of(shard: Path, writes: Sequence[tuple[int, bytes]] = (), head: int = 0) -> bytes:
    """The journal of an append of these writes to the current file. head: how many of its first bytes are overwritten."""
    stat, data = shard.stat(), shard.read_bytes()
    sample = data[max(head, len(data) - 64) :]
    end = len(data) + sum(len(written) for at, written in writes if at >= len(data))
    behind, before = (
        b"".join(written for at, written in writes if (at >= len(data)) == late) for late in (True, False)
    )
    sums = _kernel.crc32c(behind), _kernel.crc32c(before)
    numbers = (stat.st_ino, _born(shard), len(data), head, len(sample), end if writes else 0, *sums)
    body = b"FRZAPPND" + b"".join(number.to_bytes(8, "little") for number in numbers) + data[:head] + sample
    return body + _kernel.crc32c(body).to_bytes(4, "little")


def tear(shard: Path) -> bytes:
    """Kills an append to a shard with its index at the end while it writes. Returns the shard's bytes before."""
    before = shard.read_bytes()
    Path(f"{shard}{JOURNAL}").write_bytes(journal_of(shard))
    with shard.open("ab") as file:
        file.write(b"torn" * 100)
    return before


def _born(path: Path) -> int:
    output = subprocess.run(["stat", "-c", "%.W", str(path)], capture_output=True, text=True, check=True).stdout.strip()
    seconds, _, fraction = output.replace(",", ".").partition(".")
    return int(seconds) * 10**9 + int(fraction.ljust(9, "0")[:9] or 0)
