"""A real Kafka for tests: the fixture `real_kafka`.

    judged = real_kafka.judge(store / "orders-0", settings={"cleanup.policy": "compact"})
    assert [record.offset for record in judged.read_committed] == [0, 1]

    with real_kafka.broker(tmp_path / "one", {"log.segment.bytes": "65536"}) as broker:
        real_kafka.tool("TopicCommand", "--bootstrap-server", broker.bootstrap, "--create", "--topic", "orders")
        broker.stop()

A test that uses it is not run where Java or Maven is missing or does not answer. Under CI a missing Java is a failure.
No process outlives the test: brokers are killed when their block is left, and when pytest itself is gone.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SCRIPT = Path(__file__).parents[2] / "scripts" / "kafka"
COMMAND_TIME_S_MAX = 180
FETCH_TIME_S_MAX = 900
UNAVAILABLE = 3


class KafkaError(Exception):
    """scripts/kafka failed; the message is its reason."""


def run(*arguments: object, stdin: str = "", time_s_max: int = COMMAND_TIME_S_MAX) -> str:
    """Return the standard output of scripts/kafka."""
    answer = _answer(*arguments, stdin=stdin, time_s_max=time_s_max)
    if answer.returncode != 0:
        raise KafkaError(answer.stderr.strip().removeprefix("scripts/kafka: "))
    return answer.stdout


def _answer(*arguments: object, stdin: str, time_s_max: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, SCRIPT, *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, encoding="utf-8", check=False, timeout=time_s_max)


class JudgedRecord(NamedTuple):
    """A record as Kafka's consumer returned it."""

    offset: int
    timestamp: int
    timestamp_type: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    leader_epoch: int | None


@dataclass(frozen=True)
class Judgement:
    """What a broker made of a partition directory, and every record that it returned in each isolation level."""

    log_start_offset: int
    end_offset: int
    last_stable_offset: int
    broker_log: list[str]
    read_uncommitted: list[JudgedRecord]
    read_committed: list[JudgedRecord]


@dataclass(frozen=True)
class Broker:
    """A running broker; `directory` is the one it was started on."""

    bootstrap: str
    pid: int
    log_dirs: list[Path]
    directory: Path

    def stop(self) -> None:
        """Stop it cleanly and wait for its end."""
        run("stop", self.directory)

    def kill(self) -> None:
        """Kill it, if it still runs, and wait for its end."""
        run("kill", self.directory)


class RealKafka:
    """The commands of scripts/kafka. Versions are `3.9` and `4`; a command that fails raises `Error`."""

    Error = KafkaError
    run = staticmethod(run)

    def dump(self, *files: Path, options: Sequence[str] = (), version: str = "3.9") -> str:
        """Return what kafka-dump-log prints for the files."""
        return self.run("dump", "--version", version, *files, "--", *options)

    def judge(
        self, directory: Path, *, settings: Mapping[str, str] | None = None, version: str = "3.9", clean: bool = False
    ) -> Judgement:
        """Let a broker adopt a copy of a partition directory; settings are those of the topic."""
        return self.judge_all([directory], settings=settings, version=version, clean=clean)[directory.name]

    def judge_all(
        self,
        directories: Sequence[Path],
        *,
        settings: Mapping[str, str] | None = None,
        version: str = "3.9",
        clean: bool = False,
    ) -> dict[str, Judgement]:
        """Let one broker adopt copies of several, which is much faster than one by one; the keys are their names."""
        arguments = [*directories, *(f"{name}={value}" for name, value in (settings or {}).items())]
        lines = self.run("judge", "--version", version, *(["--clean"] if clean else []), *arguments)
        judgements = {}
        for line in map(json.loads, lines.splitlines()):
            if "partition" in line:
                judgement = Judgement(
                    line["logStartOffset"], line["endOffset"], line["lastStableOffset"], line["brokerLog"], [], []
                )
                judgements[line["partition"]] = judgement
            else:
                getattr(judgement, line["isolation"]).append(_record(line))
        return judgements

    @contextmanager
    def broker(
        self, directory: Path, settings: Mapping[str, str] | None = None, *, version: str = "3.9"
    ) -> Iterator[Broker]:
        """Start a broker on a directory, whose store is formatted when it is new and restarted when it is not."""
        given = [f"{name}={value}" for name, value in (settings or {}).items()]
        output = self.run("start", "--version", version, "--while", os.getpid(), directory, *given)
        try:
            said = dict(line.split("=", 1) for line in output.splitlines())
            log_dirs = [Path(log_dir) for log_dir in said["log.dirs"].split(",")]
            yield Broker(said["bootstrap"], int(said["pid"]), log_dirs, directory)
        finally:
            self.run("kill", directory)

    def tool(self, name: str, *arguments: object, stdin: str = "", version: str = "3.9") -> str:
        """Return what one of Kafka's tools prints, called by its class."""
        return self.run("tool", "--version", version, name, *arguments, stdin=stdin)


def _record(line: dict[str, object]) -> JudgedRecord:
    return JudgedRecord(
        line["offset"],
        line["timestamp"],
        line["timestampType"],
        _bytes(line["key_base64"]),
        _bytes(line["value_base64"]),
        tuple((name, _bytes(value)) for name, value in line["headers"]),
        line["leaderEpoch"],
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


@pytest.fixture(scope="session")
def real_kafka() -> RealKafka:
    """Fetch a real Kafka, once for all tests."""
    answer = _answer("fetch", stdin="", time_s_max=FETCH_TIME_S_MAX)
    reason = answer.stderr.strip().rpartition("scripts/kafka: ")[2]
    if answer.returncode == UNAVAILABLE and not (reason.startswith("Java") and os.environ.get("CI")):
        pytest.skip(f"not run: {reason}")
    if answer.returncode != 0:
        pytest.fail(f"scripts/kafka fetch: {answer.stderr.strip()}", pytrace=False)
    return RealKafka()
