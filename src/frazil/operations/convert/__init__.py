"""Hierarchies from one dialect to another.

The dialects themselves are in metadata/."""
