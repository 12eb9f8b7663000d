"""Tests, in folders that mirror src/frazil. What several tests share lives beside them and is imported as tests.<module>."""
