"""The soak test: rounds of real processes that write, collect, expire, name and read one repository, while they are killed, stopped or hit by faults. `make
soak` runs it.

plan.py has the decisions of a seed, rounds.py one round, processes.py and content.py the work of the processes, machine.py and faults.py the faults, and
checks.py the invariants. The simulation (frazil.testing.simulation) tests orders of single store operations, and repeats exactly."""
