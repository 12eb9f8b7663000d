"""What a repository consists of, for users: bytes by array and by commit, live and dead objects, one commit or one object.

It only reads listings, snapshots and manifests, never chunks. verification/ checks for damage; maintenance/ decides what may be removed."""
