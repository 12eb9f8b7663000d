"""Tests, in folders that mirror src/frazil. Modules that several tests share are next to them and are imported as tests.<module>."""
