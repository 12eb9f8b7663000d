"""Chunks in files elsewhere: where they may be read, how they are checked and fetched.

Setting them in a session is in repository/session/. Scanning files for their chunks is in integrations/files/."""
