"""Commands that read arrays and groups, and change nothing.

Those that change or make arrays are in write/."""
