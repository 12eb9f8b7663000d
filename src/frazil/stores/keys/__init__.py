"""Keys of stores: which texts are keys and prefixes (names.py), pages of sorted keys (listing.py), locks and versions of keys in memory (locks.py).

How a store keeps its keys is not defined here."""
