"""From the changes of a session to chunk objects, manifests, a snapshot and the next branch file.

Which manifests there will be is decided in repository/manifests/placement.py."""
