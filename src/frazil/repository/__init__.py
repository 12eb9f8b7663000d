"""Repositories: branches, tags, snapshots and sessions over one store. Files <-> values live in format/; arrays and groups reach a session through the two
ports, ChunkStorage and NodeStorage, and are not imported here."""
