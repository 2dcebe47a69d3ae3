"""Releases of Apache Kafka: found and fetched with Maven, kept in the cache.

Once a series (3.9, 4, 0.8.2, ...) is in the cache Maven is not asked again.
"""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from real_kafka import FailedError, java, say
from real_kafka.cache import fetching
from real_kafka.maven import Artifact, Maven, numbers

if TYPE_CHECKING:
    from pathlib import Path

GROUP = "org.apache.kafka"
KAFKA = Artifact(GROUP, "kafka_2.13")
TOOLS = Artifact(GROUP, "kafka-tools")
CURRENT = {"3.9": KAFKA, "4": KAFKA}
OLD = {
    "0.8.2": Artifact(GROUP, "kafka_2.11"),
    "0.10.2": Artifact(GROUP, "kafka_2.11"),
    "1.1": Artifact(GROUP, "kafka_2.12"),
    "2.8": KAFKA,
}
"""Their brokers need ZooKeeper, and leave on disk what later ones do not."""
SERIES = CURRENT | OLD
"""With what the versions of each begin, and the broker's artifact, which is built for one version of Scala."""
TOOL = re.compile(r"(?P<path>(?:org/apache/)?kafka/(?:admin|tools)/(?:[a-z]+/)*(?P<name>\w+))\.class")
LOGGING = "org.apache.logging.log4j"
JAXB, JAXB_VERSION = Artifact("javax.xml.bind", "jaxb-api"), "2.3.0"
"""Was part of Java up to 10; brokers from 0.10 to 1.0 rely on that, and those since then ask for this version."""


@dataclass(frozen=True)
class Release:
    """One whole release in the cache."""

    folder: Path

    @property
    def version(self) -> str:
        """The full version, such as 3.9.2."""
        return self.folder.name

    @property
    def needs_zookeeper(self) -> bool:
        """Whether its brokers keep the cluster's metadata in ZooKeeper."""
        return numbers(self.version) < [3]

    @property
    def names_listeners(self) -> bool:
        """Whether its brokers are told where to listen by `listeners`, as those since 0.9 are."""
        return numbers(self.version) >= [0, 9]

    @property
    def class_path(self) -> str:
        """Every jar of the release, in the form that Java's -cp takes."""
        return str(self.folder / "jars" / "*")

    def main_class(self, name: str) -> str:
        """The class with this simple name among Kafka's tools; a full name is itself."""
        if "." in name:
            return name
        try:
            return self.tools()[name]
        except KeyError:
            raise FailedError(f"Kafka {self.version} has no tool with a class {name}") from None

    def tools(self) -> dict[str, str]:
        """The classes among which Kafka's tools are, which move between packages, by their simple names."""
        found: dict[str, str] = {}
        for path in sorted(self.folder.glob(f"jars/kafka[-_]*-{self.version}.jar")):
            with zipfile.ZipFile(path) as jar:
                for entry in filter(None, map(TOOL.fullmatch, jar.namelist())):
                    found.setdefault(entry["name"], entry["path"].replace("/", "."))
        return found


def obtain(series: str, cache: Path) -> Release:
    """The release of a series in the cache; the newest one that Maven has whole, if there is none yet."""
    release = _cached(series, cache)
    if release is None:
        java.require()
        with fetching(cache) as work:
            release = _cached(series, cache) or _fetch(series, cache, work)
    return release


def _cached(series: str, cache: Path) -> Release | None:
    newest = max(cache.glob(f"{series}.*"), key=lambda folder: numbers(folder.name), default=None)
    return Release(newest) if newest else None


def _fetch(series: str, cache: Path, work: Path) -> Release:
    say(f"fetching Apache Kafka {series} with Maven")
    maven = Maven(work)

    def take(version: str) -> None:
        _copy(maven, broker, version, work / version / "jars")

    broker = SERIES[series]
    version = maven.newest_whole(broker, lambda listed: listed.startswith(f"{series}."), take)
    return Release((work / version).rename(cache / version))


def _copy(maven: Maven, broker: Artifact, version: str, jars: Path) -> None:
    """Put every jar that running a version takes into a folder."""
    artifacts = [broker, TOOLS] if numbers(version) >= [0, 10] else [broker]  # before, there was one jar of all tools
    dependencies = [artifact.dependency(version) for artifact in artifacts]
    if [0, 10] <= numbers(version) < [1, 1]:
        dependencies.append(JAXB.dependency(JAXB_VERSION))
    maven.copy(dependencies, jars)
    # The distribution of Kafka 4 adds the binding of slf4j to its log4j; no artifact of Kafka asks for it.
    names = " ".join(sorted(jar.name for jar in jars.iterdir()))
    log4j = re.search(r"\blog4j-core-(\S+)\.jar", names)
    if log4j:
        binding = Artifact(LOGGING, "log4j-slf4j-impl" if "slf4j-api-1." in names else "log4j-slf4j2-impl")
        maven.copy([*dependencies, binding.dependency(log4j[1])], jars)
