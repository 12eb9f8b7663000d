"""Commands that read arrays and groups, and change nothing.

Commands that change or create arrays are in write/."""
