"""Releases of Apache Kafka: found and fetched with Maven, kept in a cache.

A release in the cache is whole: it is put together beside it and moved in by one rename, under a lock. An interrupted
fetch is done again, and of several at once one fetches while the others wait. Once a series (3.9, 4) is in the cache
Maven is not asked again.
"""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from real_kafka import FailedError, UnavailableError, java

if TYPE_CHECKING:
    from collections.abc import Iterator

SERIES = {"3.9": ("3.9", "3.10"), "4": ("4", "5")}
"""The range of versions of each series, its end excluded."""

PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
MAVEN_TIME_S_MAX = 300
UNFINISHED = ".fetching-"
INCOMPLETE_RELEASES_MAX = 10
"""How many of the newest versions may be listed by the repository and yet lack files."""

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kafkafs</groupId>
  <artifactId>real-kafka</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>{dependencies}
  </dependencies>
</project>
"""
DEPENDENCY = """
    <dependency>
      <groupId>{group}</groupId>
      <artifactId>{artifact}</artifactId>
      <version>{version}</version>{rest}
    </dependency>"""
ONLY_ITS_POM = """
      <type>pom</type>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"""


class _MissingFileError(Exception):
    """The repository lists a version but has not all of its files."""


@dataclass(frozen=True)
class Release:
    """One whole release in the cache."""

    folder: Path

    @property
    def version(self) -> str:
        """The full version, such as 3.9.2."""
        return self.folder.name

    @property
    def class_path(self) -> str:
        """Every jar of the release, in the form that Java's -cp takes."""
        return str(self.folder / "jars" / "*")

    def main_class(self, name: str) -> str:
        """The class with this simple name among Kafka's tools, which move between packages; a full name is itself."""
        if "." in name:
            return name
        wanted = re.compile(rf"(org/apache/)?kafka/(admin|tools)/([a-z]+/)*{re.escape(name)}\.class")
        for artifact in ("kafka-tools", "kafka_2.13"):
            with zipfile.ZipFile(self.folder / "jars" / f"{artifact}-{self.version}.jar") as jar:
                for entry in jar.namelist():
                    if wanted.fullmatch(entry):
                        return entry.removesuffix(".class").replace("/", ".")
        raise FailedError(f"Kafka {self.version} has no tool with a class {name}")


def obtain(series: str, cache: Path) -> Release:
    """The release of a series in the cache; the newest one that Maven resolves, if there is none yet."""
    release = _cached(series, cache)
    if release is None:
        java.require()
        cache.mkdir(parents=True, exist_ok=True)
        with _locked(cache / "lock"):
            release = _cached(series, cache) or _fetch(series, cache)
    return release


def _cached(series: str, cache: Path) -> Release | None:
    versions = cache.glob(f"{series}.*")
    newest = max(versions, key=lambda folder: [int(number) for number in folder.name.split(".")], default=None)
    return Release(newest) if newest else None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("another process is fetching Apache Kafka; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(series: str, cache: Path) -> Release:
    _say(f"fetching Apache Kafka {series} with Maven")
    for interrupted in cache.glob(f"{UNFINISHED}*"):
        shutil.rmtree(interrupted, ignore_errors=True)
    low, high = SERIES[series]
    with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=cache) as work:
        for _ in range(INCOMPLETE_RELEASES_MAX):
            version = _newest(f"[{low},{high})", Path(work, "search"))
            # A range excludes its end, but not that end's candidates: 5-rc1 comes before 5.
            if re.fullmatch(rf"{re.escape(series)}(\.\d+)+", version):
                try:
                    _copy(version, Path(work, version))
                except _MissingFileError:
                    _say(f"passing over Apache Kafka {version}: Maven does not find all of its files")
                else:
                    return Release(Path(work, version).rename(cache / version))
            high = version
    raise UnavailableError(f"Maven gives no whole release of Apache Kafka {series}")


def _newest(version_range: str, folder: Path) -> str:
    """The newest version in a range that the repositories list."""
    dependency = DEPENDENCY.format(
        group="org.apache.kafka", artifact="kafka_2.13", version=version_range, rest=ONLY_ITS_POM
    )
    try:
        _maven(folder, dependency, f"{PLUGIN}:list", f"-DoutputFile={folder / 'found'}")
    except _MissingFileError as missing:
        raise UnavailableError(f"Maven does not answer: {missing}") from None
    found = re.search(r"org\.apache\.kafka:kafka_2\.13:pom:([^:\s]+)", (folder / "found").read_text())
    if found is None:
        raise UnavailableError(f"Maven names no version of Apache Kafka in {version_range}")
    return found[1]


def _copy(version: str, folder: Path) -> None:
    """Put every jar that running a version takes into a folder."""
    jars = folder / "jars"
    dependencies = [
        DEPENDENCY.format(group="org.apache.kafka", artifact=artifact, version=version, rest="")
        for artifact in ("kafka_2.13", "kafka-tools")
    ]
    copy = (f"{PLUGIN}:copy-dependencies", f"-DoutputDirectory={jars}")
    _maven(folder, "".join(dependencies), *copy)
    # The distribution of Kafka 4 adds the binding of slf4j to its log4j; no artifact of Kafka asks for it.
    names = " ".join(sorted(jar.name for jar in jars.iterdir()))
    log4j = re.search(r"\blog4j-core-(\S+)\.jar", names)
    if log4j:
        artifact = "log4j-slf4j-impl" if "slf4j-api-1." in names else "log4j-slf4j2-impl"
        group = "org.apache.logging.log4j"
        dependencies.append(DEPENDENCY.format(group=group, artifact=artifact, version=log4j[1], rest=""))
        _maven(folder, "".join(dependencies), *copy)


def _maven(folder: Path, dependencies: str, *arguments: str) -> None:
    """Run Maven on a project of its own in a folder."""
    maven = shutil.which("mvn")
    if maven is None:
        raise UnavailableError("Maven is missing: no mvn on PATH")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pom.xml").write_text(POM.format(dependencies=dependencies))
    # -U, or a file that was missing yesterday counts as missing today.
    command = [maven, "-B", "-U", "-ntp", "-q", "-f", str(folder / "pom.xml"), *arguments]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=MAVEN_TIME_S_MAX)
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"Maven does not answer within {MAVEN_TIME_S_MAX} s") from None
    if answer.returncode == 0:
        return
    error = re.search(r"\[ERROR\] (.*)", answer.stdout)
    reason = error[1].partition(" -> ")[0] if error else f"exit status {answer.returncode}"
    if re.search(r"Could not find artifact|was not found in|status: 4\d\d", reason):
        raise _MissingFileError(reason)
    raise UnavailableError(f"Maven does not answer: {textwrap.shorten(reason, 300)}")


def _say(sentence: str) -> None:
    print(f"scripts/kafka: {sentence}", file=sys.stderr, flush=True)
