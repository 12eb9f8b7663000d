"""Copies of locations as encoded bytes, never decoded.

Not here: copying of one value (stores/transfer/value_copies.py)."""
