"""Chunks in files elsewhere: where they may be read, how they are checked, set and fetched; files adopted whole.

Scanning files for their chunks is in integrations/files/."""
