"""A deterministic simulation of clients that share a repository, with the faults of stores and machines at every store operation.

scheduler, machine, media and store simulate the world; hierarchy and merged_changes are the plain model; clients and ledger are the work of clients and the
invariants."""

from __future__ import annotations

from frazil.testing.simulation.plan import ACTS, FAULTS, TASKS
from frazil.testing.simulation.simulation import Report, Simulation

__all__ = ["ACTS", "FAULTS", "TASKS", "Report", "Simulation"]
