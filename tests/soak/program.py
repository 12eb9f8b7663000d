"""The program of the soak test: rounds until the time is over, progress on a terminal, and one line at the end.

The command that a failure prints runs its round several times: the seed's decisions are the same, but real processes differ."""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from random import randrange
from tempfile import TemporaryDirectory

import pytest

from tests.servers.buckets import S3, running_s3
from tests.soak.plan import PLACES, make_round
from tests.soak.rounds import Done, Failed, run_round

_AGAIN = 20  # repetitions of the round by the command of a failure


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    seed = randrange(10**6) if options.seed is None else options.seed
    start, totals, done, failure = time.monotonic(), Counter[str](), 0, None
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="soak-", ignore_cleanup_errors=True)))
        server = _server(stack, folder)
        number = options.first
        for repeat in count(1):
            if time.monotonic() - start >= options.seconds and (not options.rounds or done):
                break
            plan = make_round(seed, number, options.place)
            _show(
                f"round {plan.name} in a {plan.place}, {done} done, {totals['commits']} commits, {totals['kills']} kills"
            )
            try:
                result = run_round(plan, server, folder / f"{number}-{repeat}")
            except Failed as error:
                failure = f"{error}\nrepeat it: python -m tests.soak --seed {seed} --first {number} --rounds 1 --repeat {_AGAIN}"
                break
            done += 1
            _add(totals, result)
            if (options.rounds and done % options.repeat == 0) or not options.rounds:
                number += 1
            if options.rounds and done >= options.rounds * options.repeat:
                break
    _show("")
    seconds = round(time.monotonic() - start)
    if failure is not None:
        print(failure, file=sys.stderr)
    if options.json:
        document = {
            "seed": seed,
            "first": options.first,
            "rounds": done,
            "seconds": seconds,
            "failed": failure,
            **totals,
        }
        print(json.dumps(document))
    else:
        text = ", ".join(f"{value} {name}" for name, value in totals.items())
        print(f"soak: seed {seed}, {done} rounds, {text}, {seconds} s: {'FAILED' if failure else 'sound'}")
    return 1 if failure else 0


def _options(arguments: list[str]) -> Namespace:
    parser = ArgumentParser(prog="python -m tests.soak", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--seconds", type=float, default=60, help="rounds begin as long as fewer have passed (60)")
    parser.add_argument("--seed", type=int, help="decides all rounds; one at random")
    parser.add_argument("--first", type=int, default=0, metavar="ROUND", help="the number of the first round (0)")
    parser.add_argument("--rounds", type=int, default=0, help="so many rounds, however long they take")
    parser.add_argument("--repeat", type=int, default=1, help="with --rounds: each round so often")
    parser.add_argument("--place", choices=PLACES, help="in all rounds")
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    options = parser.parse_args(arguments)
    if options.rounds:
        options.seconds = float("inf")
    return options


def _server(stack: ExitStack, folder: Path) -> S3 | None:
    """An S3 server; None if none is installed: folders replace buckets then."""
    (folder / "s3").mkdir()
    try:
        return stack.enter_context(running_s3(folder / "s3"))
    except pytest.skip.Exception as why:
        print(f"soak: no buckets: {why}", file=sys.stderr)
        return None


def _add(totals: Counter[str], done: Done) -> None:
    for name, value in done._asdict().items():
        if name == "place":
            totals[f"in {value}"] += 1
        else:
            totals[name] += value


def _show(line: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
