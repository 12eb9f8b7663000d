"""Rewrites an array with other chunks, shards or codecs, in bounded memory.

operations/slabs.py reads the array in slabs; the journal of an unfinished rechunk is that of copies (copy/journal.py)."""
