"""`python -m frazil` is the command `frazil`."""

from frazil.cli.main import program

if __name__ == "__main__":
    program()
