"""One file for each command: its arguments, and how its result is printed. What a command does is in operations/ and below.

read/ has the commands that only read, write/ those that change or make arrays, repo/ those on repositories."""
