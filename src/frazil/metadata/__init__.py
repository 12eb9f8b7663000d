"""Documents to frozen values and back: no I/O, no codecs, no chunks.

One dialect a file (v3: the final Zarr v3.1); model.py is what all of them mean. Import from the modules: this package exports nothing.

json_text    bytes to JSON and back, strictly             paths       names and paths of nodes
members      checks of the members of an object           extensions  the extension value, and what a registry holds
fill_values  one element, exact to the bit                data_types  names, NumPy dtypes, byte order, fill values
datetimes  strings  structs      more data types, as zarr-python 3 names them
draft_types  draft_fill          data types and fill values of the 2022 draft
chunk_grids  chunk_keys  registry  model  v3
"""
