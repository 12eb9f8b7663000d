"""Array-to-array codecs, one in each file.

The base class is in codecs/codec.py."""
