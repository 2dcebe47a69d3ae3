"""Stores as data sources of Spark, through PySpark: `spark.read.format("kafkafs").load("/var/lib/kafka")`.

It works like Spark's own Kafka source. It is found by its name where kafkafs is installed as a wheel; `session` makes a
session in which it is, however kafkafs came there. Nothing here needs Spark before it is used.
"""

from __future__ import annotations

from kafkafs.spark.sessions import read, session

__all__ = ["read", "session"]
