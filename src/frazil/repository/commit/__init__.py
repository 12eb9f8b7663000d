"""Turns the changes of a session into chunk objects, manifests, a snapshot and the next branch file.

repository/manifests/placement.py decides which manifests are written."""
