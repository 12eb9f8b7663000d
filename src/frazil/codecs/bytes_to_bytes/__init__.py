"""Bytes-to-bytes codecs, one a file: compressors, checksums, shuffles.

The base class is in codecs/codec.py."""
