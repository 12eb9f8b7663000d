"""Repair of repositories in every format (repository/format.py): new commits and new branches in which what was damaged is as older snapshots have it.

What is damaged is found in repository/verification/. Nothing that is there is changed or removed."""
