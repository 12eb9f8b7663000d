"""Repair of repositories in every format (repository/format.py): new commits and new branches in which older snapshots replace what is damaged.

repository/verification/ finds the damage. Nothing that exists is changed or removed."""
