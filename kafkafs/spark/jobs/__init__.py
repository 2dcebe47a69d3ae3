"""Jobs over whole stores, each a function that returns a DataFrame: `jobs.stats(spark, "/var/lib/kafka")`."""

from __future__ import annotations

from kafkafs.spark.jobs.compact import compact
from kafkafs.spark.jobs.diff import diff
from kafkafs.spark.jobs.export import export
from kafkafs.spark.jobs.gaps import gaps
from kafkafs.spark.jobs.ingest import ingest, ingest_from_kafka
from kafkafs.spark.jobs.lag import lag
from kafkafs.spark.jobs.rewrite import rewrite
from kafkafs.spark.jobs.skew import skew
from kafkafs.spark.jobs.stats import stats
from kafkafs.spark.jobs.verify import verify

__all__ = [
    "compact",
    "diff",
    "export",
    "gaps",
    "ingest",
    "ingest_from_kafka",
    "lag",
    "rewrite",
    "skew",
    "stats",
    "verify",
]
