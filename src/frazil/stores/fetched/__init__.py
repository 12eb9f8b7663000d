"""Columns of what a store fetched: content, parts put together from several sources, spans merged, objects in pages.

The values that pass through the store port are in stores/values.py."""
