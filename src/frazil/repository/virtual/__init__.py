"""Chunks in files elsewhere: where they may be read, and how they are checked and fetched.

repository/session/ sets them in a session. integrations/files/ scans files for their chunks."""
