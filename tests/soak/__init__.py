"""The soak test: rounds of real processes that write, collect, expire, name and read one repository, and are killed, stopped and failed while they do. `make soak` runs it.

What a seed decides is in plan.py, one round in rounds.py, what the processes do in writers.py, keepers.py and content.py, what goes wrong in machine.py and faults.py, and
what must hold in checks.py. Orders of single store operations are the simulation's (frazil.testing.simulation), which repeats exactly."""
