"""One file for each command: its arguments, and how its result is printed. The work itself is in operations/ and the layers below.

read/ has the commands that only read, write/ those that change or create arrays, repo/ those on repositories."""
