"""Runs commands of kafkafs in one session of Spark, and prints each that has succeeded."""

from __future__ import annotations

import json
import sys

from click.testing import CliRunner

from kafkafs.cli import main
from kafkafs.spark import session


def run() -> None:
    """Run the commands that the command line names, with the settings in it; the first that fails ends the process."""
    spark = session(json.loads(sys.argv[1]))
    for words in json.loads(sys.argv[2]):
        done = CliRunner().invoke(main, words)
        if done.exit_code != 0:
            sys.exit(f"kafkafs {' '.join(words)}: {done.output}")
        print(json.dumps(words))
    spark.stop()


if __name__ == "__main__":
    run()
