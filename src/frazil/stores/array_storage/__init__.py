"""The ports between arrays and their storage: chunks in columns, nodes by path; their plain implementations over a store; and a store of keys over nodes.

The port for keys and bytes is stores/store.py."""

from frazil.base.late import late_modules

late_modules(__name__, "node_store")
