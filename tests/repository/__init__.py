"""Repositories over real stores: sessions, commits, and their pure parts."""
