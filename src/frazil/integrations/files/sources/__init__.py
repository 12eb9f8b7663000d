"""Where files are, and how their bytes are read: on this machine, or by ranges from a store.

What is in them is found by the packages of the formats."""
