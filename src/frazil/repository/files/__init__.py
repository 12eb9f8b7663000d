"""The files of a repository that never change, read, written and cached; what lies in a snapshot's properties; foreign repositories.

Their bytes are in formats/."""
