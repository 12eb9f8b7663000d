"""Copies of locations as encoded bytes, never decoded.

How one value is copied is a matter of stores (stores/value_copies.py)."""
