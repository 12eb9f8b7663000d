"""The ports between arrays and where they are stored: chunks in columns, nodes by path; their plain forms over a store; and a store of keys over nodes.

The port for keys and bytes is stores/store.py."""
