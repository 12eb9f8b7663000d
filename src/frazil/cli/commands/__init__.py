"""One file a command: its arguments, and how its result is printed.

What commands do is in operations/ and below."""
