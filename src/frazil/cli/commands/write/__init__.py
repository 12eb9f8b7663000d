"""Commands that write elements, or create arrays, groups and repositories from other data.

Commands that only read are in read/."""
