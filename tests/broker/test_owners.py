"""A broker's own user goes on with a store that root has recovered and appended to with kafkafs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from other_users import NOBODY

if TYPE_CHECKING:
    import pytest
    from real_brokers import RealKafka

# Java as that user, who may read where Kafka's own files lie and write nothing of others.
JAVA: Final = f"""\
#!/bin/sh
exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups --inh-caps=-all,+dac_read_search \\
    --ambient-caps=-all,+dac_read_search --bounding-set=-all,+dac_read_search {{java}} "$@"
"""


def kafkafs(*arguments: object, stdin: str = "") -> None:
    command = [sys.executable, "-P", "-m", "kafkafs", *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def java_of_another_user(directory: Path) -> Path:
    """Make a JAVA_HOME whose `java` is another user's process."""
    java = shutil.which("java")
    assert java is not None
    (directory / "bin").mkdir(parents=True)
    for name in ("javac", "jar"):
        found = shutil.which(name)
        if found is not None:
            (directory / "bin" / name).symlink_to(found)
    (directory / "bin" / "java").write_text(JAVA.format(java=java))
    (directory / "bin" / "java").chmod(0o755)
    return directory


def test_the_brokers_user_opens_what_root_has_recovered(
    real_kafka: RealKafka, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = scratch / "broker"
    with real_kafka.broker(place) as broker:
        at = ("--bootstrap-server", broker.bootstrap, "--topic", "t")
        real_kafka.tool("TopicCommand", *at, "--create", "--partitions", 1)
        real_kafka.tool("ConsoleProducer", *at, stdin="first\nsecond\n")
        broker.kill()
    for path in (place, *place.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    (place / "logs" / ".lock").unlink()
    for index in (place / "logs").glob("t-0/*index"):
        index.unlink()
    kafkafs("recover", place / "logs", "--apply")
    kafkafs("append", "--rw", place / "logs", "t/0/append", stdin="third\n")
    theirs = [path for path in (place / "logs").rglob("*") if path.lstat().st_uid != NOBODY]
    assert theirs == []
    monkeypatch.setenv("JAVA_HOME", str(java_of_another_user(scratch / "java")))
    with real_kafka.broker(place) as broker:
        at = ("--bootstrap-server", broker.bootstrap, "--topic", "t")
        assert Path(f"/proc/{broker.pid}").stat().st_uid == NOBODY
        real_kafka.tool("ConsoleProducer", *at, stdin="fourth\n")
        options = ("--from-beginning", "--max-messages", 4, "--timeout-ms", 30_000)
        read = real_kafka.tool("ConsoleConsumer", *at, *options)
        broker.stop()
    assert read.split() == ["first", "second", "third", "fourth"]
