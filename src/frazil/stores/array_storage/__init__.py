"""The ports between arrays and where they are stored: chunks in columns, nodes by path; and their plain forms over a store.

The port for keys and bytes is stores/store.py."""
