"""An array written anew with other chunks, shards or codecs, in bounded memory.

How an array is walked through is in operations/slabs.py; the note of an unfinished one is that of copies (copy/note.py)."""
