"""What a repository consists of, for users: bytes by array and by commit, what is live and what is dead, one commit or object by itself.

It reads listings, snapshots and manifests, never chunks, and writes nothing. Whether all is sound is asked in verification/; what may be removed is decided in maintenance/."""
