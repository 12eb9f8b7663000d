"""`python -m frazil` is the command `frazil`."""

import sys

from frazil.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
