"""`python -m kafkafs`: the command line, for where the script of that name is not on the path."""

from __future__ import annotations

from kafkafs.cli import main

if __name__ == "__main__":
    main(prog_name="kafkafs")
