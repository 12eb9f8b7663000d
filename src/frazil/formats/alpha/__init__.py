"""Conversion between files of the Icechunk specification, alpha, and values: refs, snapshots, nodes, manifests, attribute files.

repository/ uses the files."""
