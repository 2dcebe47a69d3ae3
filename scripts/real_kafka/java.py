"""How Java is called: which one, with which settings, and how our own Java sources become classes."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from real_kafka import FailedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from real_kafka.release import Release

VERSION_MIN = 17
SETTINGS = [
    "-Xmx512m",
    "-Xshare:auto",
    "-XX:+UseSerialGC",
    "-Djava.awt.headless=true",
    "-Dfile.encoding=UTF-8",
    "-Dstdout.encoding=UTF-8",
    "-Dsun.stdout.encoding=UTF-8",
]
QUICK_START = "-XX:TieredStopAtLevel=1"
"""For processes that live for seconds: the second compiler would only compete with them. They use the class archive."""


def program(name: str) -> str:
    """The path of a JDK program, from JAVA_HOME or PATH."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(name, path=f"{home}/bin") if home else shutil.which(name)
    if found is None:
        where = f"in JAVA_HOME ({home})" if home else "on PATH"
        raise UnavailableError(f"Java is missing: no {name} {where}; a JDK, {VERSION_MIN} or newer, is needed")
    return found


def require() -> None:
    """Raise unless a JDK that can run every Kafka we fetch is here."""
    program("javac")
    answer = subprocess.run([program("java"), "-version"], capture_output=True, text=True, check=False)
    version = answer.stderr.partition('version "')[2].partition('"')[0]
    if answer.returncode != 0 or not version:
        raise UnavailableError(f"Java does not answer: {answer.stderr.strip() or answer.returncode}")
    if int(version.split(".")[0].partition("-")[0]) < VERSION_MIN:
        raise UnavailableError(f"Java {version} is too old: {VERSION_MIN} or newer is needed")


def command(
    release: Release,
    main_class: str,
    *arguments: str,
    log_level: str,
    settings: Sequence[str] = (),
    classes: Sequence[Path] = (),
) -> list[str]:
    """The command line that runs a class of a release, with its log on standard error."""
    here = Path(__file__).parent
    archive = class_archive(release)
    if QUICK_START in settings and archive.exists():
        # Where the archive does not fit, the JVM would say so on standard output.
        settings = [*settings, "-Xlog:disable", f"-XX:SharedArchiveFile={archive}"]
    return [
        program("java"),
        *SETTINGS,
        *settings,
        f"-Dreal.kafka.log.level={log_level}",
        f"-Dlog4j.configuration=file:{here / 'log4j.properties'}",
        f"-Dlog4j2.configurationFile={here / 'log4j2.properties'}",
        "-cp",
        os.pathsep.join([release.class_path, *map(str, classes)]),  # the archive is of the release's alone
        main_class,
        *arguments,
    ]


def class_archive(release: Release) -> Path:
    """Where the archive of a release's classes for this build of Java is, if it was made."""
    java = Path(program("java")).resolve()
    build = java.parent.parent / "release"
    digest = hashlib.sha256(bytes(java) + (build.read_bytes() if build.exists() else b"")).hexdigest()
    return release.folder / f"classes-{digest[:16]}.jsa"


def compiled(release: Release, sources: Path) -> Path:
    """The classes of a folder of Java sources, compiled against a release: once, and again when they changed."""
    files = sorted(sources.glob("*.java"))
    digest = hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()
    classes = release.folder / f"{sources.name}-{digest[:16]}"
    if classes.is_dir():
        return classes
    building = Path(tempfile.mkdtemp(prefix=f".{sources.name}-", dir=release.folder))
    try:
        arguments = ["-nowarn", "-encoding", "UTF-8", "-cp", release.class_path, "-d", str(building), *map(str, files)]
        answer = subprocess.run([program("javac"), *arguments], capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            raise FailedError(f"{sources.name} does not compile against Kafka {release.version}:\n{answer.stderr}")
        # The process that renames first wins: both folders hold the same.
        if not classes.is_dir():
            building.rename(classes)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return classes
