"""A Java that is not there, too old, or none at all is said before Spark is started."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkafs.spark.errors import JobError
from kafkafs.spark.sessions import check_java

if TYPE_CHECKING:
    from pathlib import Path


def java(folder: Path, script: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.1"])
def test_one_that_will_do(tmp_path: Path, version: str) -> None:
    home = java(tmp_path, f"echo 'openjdk version \"{version}\" 2025-04-15' >&2")
    check_java({"JAVA_HOME": str(home), "PATH": "/bin"})
    check_java({"PATH": f"{home}/bin:/bin"})


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'java version \"1.8.0_402\"' >&2", "is version 8"),
        ("echo 'openjdk version \"11.0.2\"' >&2", "is version 11"),
        ("exit 1", "is another program"),
    ],
)
def test_one_that_will_not(tmp_path: Path, script: str, said: str) -> None:
    home = java(tmp_path, script)
    with pytest.raises(JobError, match=rf"^Spark needs Java 17 or newer, and {home}/bin/java {said}: set JAVA_HOME"):
        check_java({"JAVA_HOME": str(home), "PATH": "/bin"})


def test_none(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"^Spark needs Java 17 or newer, and there is none on the PATH$"):
        check_java({"PATH": str(tmp_path)})
    with pytest.raises(JobError, match=r"there is none in JAVA_HOME, which is /nowhere$"):
        check_java({"JAVA_HOME": "/nowhere", "PATH": "/bin:/usr/bin"})


def test_one_that_does_not_run(tmp_path: Path) -> None:
    home = java(tmp_path, "")
    (home / "bin" / "java").write_bytes(b"\x7fELF")
    with pytest.raises(JobError, match="does not run: "):
        check_java({"JAVA_HOME": str(home), "PATH": "/bin"})
