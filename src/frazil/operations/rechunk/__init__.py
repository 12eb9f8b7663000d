"""An array written anew with other chunks, shards or codecs, in bounded memory.

How an array is walked through is in operations/slabs.py; the journal of an unfinished one is that of copies (copy/journal.py)."""
