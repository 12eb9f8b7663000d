"""Files of the Icechunk specification, alpha <-> values: refs, snapshots, nodes, manifests, attribute files.

What the files mean together is in repository/."""
