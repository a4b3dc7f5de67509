"""``python -m dhsic`` does what ``dhsic`` does."""

from dhsic.cli.app import main

if __name__ == "__main__":
    main(prog_name="dhsic")
