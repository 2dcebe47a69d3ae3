"""scripts/kafka says why a broker ended by its fatal error, whatever else its log has of those moments."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
UNANSWERED = """\
[2026-11-24 12:23:15,100] ERROR [ControllerApis nodeId=1] Unexpected error (kafka.server.ControllerApis)
org.apache.kafka.common.errors.NotControllerException: The controller is shutting down.
"""
LOADING = """\
[2026-11-24 12:23:15,110] ERROR Error while loading log dir /d1 (kafka.log.LogManager)
java.util.concurrent.ExecutionException: it failed
	at java.lang.Thread.run(Thread.java:840)
Caused by: java.lang.IllegalStateException: two copies
	... 2 more
"""
ENDING = """\
[2026-11-24 12:23:15,132] ERROR Encountered fatal fault: Error starting LogManager (org.apache.kafka.Handler)
java.lang.IllegalStateException: two copies
	at kafka.log.LogManager.loadLog(LogManager.scala:388)
"""
OLD_ENDING = """\
[2016-11-24 12:23:15,132] FATAL  (kafka.Kafka$)
java.lang.IllegalArgumentException: no such setting
"""
WITHOUT_DIRECTORIES = (
    "[2026-11-24 12:23:15,132] ERROR Shutdown broker because all log dirs failed (kafka.log.LogManager)\n"
)
TELLING = "[2026-11-24 12:23:15,140] INFO a fatal error was not told here (kafka.server.KafkaServer)\n"


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (UNANSWERED + LOADING + ENDING + UNANSWERED, "Encountered fatal fault: Error starting LogManager: ENDED"),
        (TELLING + LOADING + UNANSWERED + TELLING, "Error while loading log dir /d1: ENDED"),
        (UNANSWERED + LOADING + WITHOUT_DIRECTORIES, "Shutdown broker because all log dirs failed: ENDED"),
        (UNANSWERED + OLD_ENDING, ": java.lang.IllegalArgumentException: no such setting"),
        (TELLING, TELLING.strip()),
        ("Unrecognized option: -X\nError: no main class\n", "Error: no main class"),
        ("", "it said nothing"),
    ],
    ids=["fatal", "first", "directories", "old", "without errors", "java", "nothing"],
)
def test_a_broker_that_ended_is_told_by_its_fatal_error(log: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    reason = importlib.import_module("real_kafka.broker").reason(log)
    assert reason == said.replace("ENDED", "java.lang.IllegalStateException: two copies")
