"""python -m tests.soak: the soak test (program.py). Each of its processes imports this file, so that it imports nothing else."""

if __name__ == "__main__":
    import sys

    from tests.soak.program import main

    sys.exit(main(sys.argv[1:]))
