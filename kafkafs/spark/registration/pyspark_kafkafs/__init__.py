"""What Spark looks for: a module whose name begins with `pyspark_`, and in it the data source of that name.

It is installed beside the packages, so that `format("kafkafs")` works wherever kafkafs is installed.
"""

from __future__ import annotations

from kafkafs.spark.source import KafkafsSource as DefaultSource

__all__ = ["DefaultSource"]
