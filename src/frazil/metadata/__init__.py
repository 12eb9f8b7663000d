"""Documents of nodes <-> frozen values. Pure: no I/O, no codecs, no chunks.

model.py has the values (ArrayMetadata, GroupMetadata), which are the same for every dialect; v3/ and draft/ have a dialect each, types/ the data types, registry.py the extensions by name.
Not here: how documents are stored and found (array/hierarchy/), and what codecs do (codecs/). This package exports nothing: import from its modules."""
