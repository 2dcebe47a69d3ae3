"""What a real broker makes of partition directories: it adopts copies of them, and every record is read back.

The cluster's metadata is written so that it knows the topics under the ids in the directories; a directory without an
id (from before Kafka 2.8) gets one. The given directories are only read.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from real_kafka import FailedError, broker, java

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from real_kafka.release import Release

SOURCES = Path(__file__).parent.parent / "kafka-judge"
NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}-(0|[1-9][0-9]{0,5})")
CHECKPOINTS = ("log-start-offset-checkpoint", "replication-offset-checkpoint")
"""Not the recovery points: below them nothing would be recovered."""
UNTOUCHED = {"log.cleaner.enable": "false", "log.retention.ms": "-1", "log.retention.check.interval.ms": str(2**31)}
"""The broker is to show what is there, not to tidy it up."""


def judge(release: Release, directories: Sequence[Path], settings: Mapping[str, str], *, clean: bool) -> None:
    """Print the JSON lines of Judge.java on standard output.

    Settings are those of the topics. The broker recovers every segment, unless clean: then it believes that the
    directories were closed well.
    """
    directories = [directory.resolve() for directory in directories]
    names = [directory.name for directory in directories]
    for directory in directories:
        if not directory.is_dir() or NAME.fullmatch(directory.name) is None:
            raise FailedError(f"{directory} is not a partition directory: it has to be called <topic>-<number>")
    if len(set(names)) < len(names):
        raise FailedError("one broker cannot hold two directories of the same name; judge them one after the other")
    classes = java.compiled(release, SOURCES)
    for attempt in range(1, broker.PORT_ATTEMPTS + 1):
        with tempfile.TemporaryDirectory(prefix="kafka-judge-") as work:
            _prepare(Path(work), directories, settings, clean=clean)
            arguments = [f"{name}:{topic_id}" for name, topic_id in _topic_ids(Path(work) / "logs", names).items()]
            command = java.command(
                release, "Judge", work, *arguments, log_level="WARN", settings=[java.QUICK_START], classes=[classes]
            )
            status = _run(command, Path(work) / "broker.log")
            said = (Path(work) / "broker.log").read_text(errors="replace").replace(f"{work}/", "")
        if status == 0:
            return
        if attempt == broker.PORT_ATTEMPTS or not broker.lost_port(said):
            verdict = re.findall(r"(?m)^judge: (.*)", said)
            raise FailedError(verdict[0] if verdict else broker.reason(said))


def _run(command: Sequence[str], log: Path) -> int:
    """The exit status of a process that reads nothing and ends when this one does, however that comes about."""
    with log.open("ab") as errors, subprocess.Popen(command, stdin=subprocess.PIPE, stderr=errors) as process:
        try:
            return process.wait()
        finally:
            process.kill()


def _prepare(work: Path, directories: Sequence[Path], settings: Mapping[str, str], *, clean: bool) -> None:
    """Lay out the folder that Judge.java describes."""
    logs = work / "logs"
    logs.mkdir()
    for directory in directories:
        # cp, because indexes are sparse files of 10 MiB each.
        copy = [
            "cp",
            "-R",
            "--preserve=timestamps",
            "--sparse=always",
            "--reflink=auto",
            "--",
            str(directory),
            str(logs),
        ]
        if subprocess.run(copy, check=False).returncode != 0:
            raise FailedError(f"{directory} could not be copied")
    for checkpoint in CHECKPOINTS:
        _carry(checkpoint, directories, logs)
    if clean:
        (logs / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    identities = {"version": "1", "cluster.id": broker.new_id(), "node.id": "1", "directory.id": broker.new_id()}
    broker.write_properties(logs / "meta.properties", identities)
    broker.write_properties(work / "broker.properties", broker.properties(logs, UNTOUCHED))
    broker.write_properties(work / "topic.properties", settings)


def _topic_ids(logs: Path, names: Sequence[str]) -> dict[str, str]:
    """The topic id for each partition; one that lacks it is given its topic's, on disk too."""
    ids: dict[str, str] = {}
    files = {name: (logs / name / "partition.metadata", name.rpartition("-")[0]) for name in names}
    for file, topic in files.values():
        found = re.search(r"topic_id: *(\S+)", file.read_text(errors="replace") if file.exists() else "")
        if found:
            ids.setdefault(topic, found[1])
    for file, topic in files.values():
        if not file.exists():
            file.write_text(f"version: 0\ntopic_id: {ids.setdefault(topic, broker.new_id())}")
    return {name: ids[topic] for name, (_, topic) in files.items()}


def _carry(checkpoint: str, directories: Sequence[Path], logs: Path) -> None:
    """Copy the lines of the partitions from the checkpoints that lie beside their directories."""
    lines = []
    for directory in directories:
        beside = directory.parent / checkpoint
        topic, _, partition = directory.name.rpartition("-")
        if beside.exists():
            lines += re.findall(rf"(?m)^{re.escape(topic)} {partition} [0-9]+\n", beside.read_text(errors="replace"))
    if lines:
        (logs / checkpoint).write_text(f"0\n{len(lines)}\n" + "".join(lines))
