"""The connector with which Spark reads a broker: found and fetched with Maven, kept in the cache.

It is what PySpark comes without. Once the one for a version of Spark is in the cache Maven is not asked again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from real_kafka import java, say
from real_kafka.cache import fetching
from real_kafka.maven import EVERY_GROUP, Artifact, Maven, numbers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SPARK = "org.apache.spark"
CONNECTOR = Artifact(SPARK, "spark-sql-kafka-0-10_2.13")
TOKENS = Artifact(SPARK, "spark-token-provider-kafka-0-10_2.13")
WITHOUT_PYSPARK = f"{SPARK},org.apache.kafka,org.apache.commons"
"""The groups of what the connector needs and PySpark has not: the connector, Kafka's client and its pool of objects."""


def obtain(spark_version: str, cache: Path) -> list[Path]:
    """The jars for a version of Spark: those of the newest connector that is not newer and that Maven has whole."""
    folder = cache / f"connector-{spark_version}"
    if not folder.is_dir():
        java.require()
        with fetching(cache) as work:
            if not folder.is_dir():
                _fetch(spark_version, work).rename(folder)
    return sorted(folder.iterdir())


def _fetch(spark_version: str, work: Path) -> Path:
    say(f"fetching the Kafka connector of Spark {spark_version} with Maven")
    maven, jars = Maven(work), work / "jars"

    def connector(version: str) -> None:
        # Of its own group it needs Spark, which is there, and the token provider.
        maven.copy([CONNECTOR.dependency(version, without=SPARK)], jars, groups=WITHOUT_PYSPARK)

    def tokens(version: str) -> None:
        maven.copy([TOKENS.dependency(version, without=EVERY_GROUP)], jars)

    version = maven.newest_whole(CONNECTOR, _not_newer(spark_version), connector)
    # Spark asks for the token provider of the same version. A repository may lack that one and have the connector;
    # the provider does nothing but find the credentials of a secured cluster, by an interface that has stayed the same
    # within a major version, so that an older one does.
    maven.newest_whole(TOKENS, _not_newer(version), tokens)
    return jars


def _not_newer(version: str) -> Callable[[str], bool]:
    """Whether a version is of the same major version and not newer."""
    latest = numbers(version)
    return lambda listed: latest[:1] <= numbers(listed) <= latest
