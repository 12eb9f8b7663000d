"""Array-to-array codecs, one a file.

The base class is in codecs/codec.py."""
