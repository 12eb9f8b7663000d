"""Runs one simulation and prints its trace: python -m frazil.testing.simulation SEED [--without NAME ...]."""

from __future__ import annotations

import sys

from frazil.testing.simulation.simulation import Simulation


def main(arguments: list[str]) -> None:
    """arguments: a seed, and the names of faults, acts and tasks to leave out."""
    report = Simulation(int(arguments[0]), without=arguments[2:]).run()
    sys.stdout.write("\n".join([*report.trace, f"{report.commits} commits in {report.steps} steps\n"]))


if __name__ == "__main__":
    main(sys.argv[1:])
