"""A real Apache Kafka for tests: the parts of `scripts/kafka`.

`release` finds one and keeps it, `java` runs its classes, `broker` starts and stops brokers, with a `zookeeper` where
they need one, `clusters` several of them; `processes` are what both leave running. `judging` lets a broker adopt a
partition directory. `spark_connector` finds what Spark reads a broker with. `maven` finds both, and `cache`
keeps them. Only the standard library is used, so that any Python 3.11 runs them.
"""

from __future__ import annotations

import sys


class UnavailableError(Exception):
    """Java or Maven is missing or does not answer; the message is one sentence that begins with its name."""


class FailedError(Exception):
    """What was asked for did not happen; the message is the reason."""


def say(sentence: str) -> None:
    """Tell the user who waits what goes on."""
    print(f"scripts/kafka: {sentence}", file=sys.stderr, flush=True)
