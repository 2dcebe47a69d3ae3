"""An archive of a release's classes, from which the JVM starts brokers and tools in half the time.

The JVM makes it from the classes that a broker and some tools have loaded (class data sharing). It fits one release and
one build of Java; a JVM that it does not fit goes without.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from real_kafka import broker, java, say
from real_kafka.cache import fetching

if TYPE_CHECKING:
    from real_kafka.release import Release

PROGRAM = Path(__file__).parent.parent / "kafka-classes" / "LoadClasses.java"
"""Run from its source, because an archive is of all that the class path has, and this is no part of a release."""
TOOLS = ("TopicCommand", "ConsoleProducer", "ConsoleConsumer", "ConfigCommand", "GetOffsetShell", "DumpLogSegments")
TIME_S_MAX = 120


def make(release: Release, cache: Path) -> None:
    """Make the archive of a release, unless it is there. Without it all goes on as well, only slower."""
    archive = java.class_archive(release)
    if archive.exists():
        return
    with fetching(cache) as work:
        if not archive.exists():
            _make(release, archive, work)


def _make(release: Release, archive: Path, work: Path) -> None:
    made = work / archive.name
    with tempfile.TemporaryDirectory(prefix="kafka-classes-") as directory:
        folder = Path(directory)
        (folder / "logs").mkdir()
        values = broker.properties(folder / "logs", {})
        broker.write_properties(folder / "broker.properties", values)
        broker.format_log_dirs(release, folder, values)
        command = java.command(
            release,
            str(PROGRAM),
            directory,
            *map(release.main_class, TOOLS),
            log_level="WARN",
            settings=[java.QUICK_START, f"-XX:ArchiveClassesAtExit={made}"],
        )
        with (folder / "output").open("w+b") as output:
            try:
                subprocess.run(
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=TIME_S_MAX, check=True
                )
                made.rename(archive)
            except (subprocess.SubprocessError, OSError) as failure:
                output.seek(0)
                said = output.read().decode(errors="replace").strip()
                say(
                    f"Java made no archive of Kafka's classes, without which it starts slower: {failure}: {said[-500:]}"
                )
