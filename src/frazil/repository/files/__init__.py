"""The files of a repository that never change, read, written and cached; what lies in the flags and properties of a snapshot; foreign formats.

Their bytes are in formats/."""
