"""Copies of locations as encoded bytes, never decoded.

How one value is copied is a matter of stores (stores/transfer/value_copies.py)."""
