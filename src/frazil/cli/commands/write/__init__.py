"""Commands that write elements, or make arrays, groups and repositories of what is elsewhere.

Those that only read are in read/."""
