"""Locations as users name them: the store and prefix of one (resolve.py), and whether two overlap (overlap.py).

Not here: nodes at a location (api/node_locations.py)."""

from frazil.stores.locations.resolve import (
    Location,
    given_location,
    key_prefix,
    location_text,
    resolve,
    split_archive,
)

__all__ = ["Location", "given_location", "key_prefix", "location_text", "resolve", "split_archive"]
