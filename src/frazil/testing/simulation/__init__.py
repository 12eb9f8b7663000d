"""A deterministic simulation of clients that share a repository, with the faults of stores and machines at every store operation.

scheduler, machine, media and store are the simulated world; hierarchy and merging the plain model; clients and ledger what is done and what must hold."""

from __future__ import annotations

from frazil.testing.simulation.plan import ACTS, FAULTS, TASKS
from frazil.testing.simulation.simulation import Report, Simulation

__all__ = ["ACTS", "FAULTS", "TASKS", "Report", "Simulation"]
