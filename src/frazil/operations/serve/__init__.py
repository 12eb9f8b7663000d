"""Stores and repositories as plain Zarr over HTTP, to be read.

The command is in cli/commands/serve.py."""
