"""The places of files, and reading of their bytes: on this machine, or by ranges from a store.

The packages of the formats read their content."""
