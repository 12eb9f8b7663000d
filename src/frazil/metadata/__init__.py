"""Documents of nodes <-> frozen values. Pure: no I/O, no codecs, no chunks.

model.py has the values (ArrayMetadata, GroupMetadata), which are the same for every dialect; v2/, v3/ and draft/ have the dialects, types/ the data types,
registry.py the extensions by name.
Not here: storing and finding documents (array/hierarchy/), and the codecs (codecs/). This package exports nothing: import from its modules."""
