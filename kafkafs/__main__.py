"""`python -m kafkafs`, and where the program begins: the command line is imported when an interrupt is provided for."""

from __future__ import annotations

from kafkafs.interrupts import end_quietly_by_interrupts


def main() -> None:
    """Run the command line."""
    end_quietly_by_interrupts()
    from kafkafs.cli import main as command_line

    command_line(prog_name="kafkafs")


if __name__ == "__main__":
    main()
