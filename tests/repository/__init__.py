"""Repositories over real stores: sessions, commits, and the pure parts that they are made of."""
