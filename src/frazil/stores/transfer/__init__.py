"""Moving bytes from and to stores: reading fetched rows, merging spans, fetching in pages, composing, appending and copying values.

The values that pass through the store port are in stores/values.py."""

from frazil.base.late import late_modules

late_modules(__name__, "composed_values", "merged_spans", "value_copies")
