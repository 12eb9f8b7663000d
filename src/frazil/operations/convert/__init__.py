"""Converts hierarchies from one dialect to another.

Not here: the dialects (metadata/)."""
