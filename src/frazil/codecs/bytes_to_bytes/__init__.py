"""Bytes-to-bytes codecs, one in each file: compressors, checksums, shuffles.

The base class is in codecs/codec.py."""
