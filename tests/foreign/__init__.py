"""Exchange with other programs: what they write is read, and what we write is read by them. `make test-foreign` runs it, `make test` does not."""
