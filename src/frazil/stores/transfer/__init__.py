"""Bytes on their way from and to stores: content of what was fetched, spans merged, objects in pages, values put together, appended, copied from store to store, and attempts (retry.py).

The values that pass through the store port are in stores/values.py."""
