"""How stored shards look inside: their indexes, where their inner chunks lie, what of them nothing refers to, and pictures of that. No chunk is decoded.

Whether they are as they should be is a matter of validate/."""
