"""The ten operations of the draft's abstract store interface: their types, how missing ones are made from others, and a store over an object that has some of
them.

The port that the rest of Frazil uses is in stores/store.py."""

from frazil.base.late import late_modules

late_modules(__name__, "adapted_store", "foreign_stores", "fsspec_operations", "partial_values", "zarr_operations")
