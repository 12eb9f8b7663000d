"""Exchange with other programs: we read their data, and they read ours. `make test-foreign` runs it, `make test` does not."""
