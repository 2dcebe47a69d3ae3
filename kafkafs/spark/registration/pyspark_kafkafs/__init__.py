"""The module that Spark looks for: its name begins with `pyspark_`, and it has the data source of that name.

It is installed beside the packages, so that `format("kafkafs")` works wherever kafkafs is installed.
"""

from __future__ import annotations

from kafkafs.spark.source import KafkafsSource as DefaultSource

__all__ = ["DefaultSource"]
