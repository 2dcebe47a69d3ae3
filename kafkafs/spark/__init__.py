"""Stores as data sources of Spark, through PySpark: `spark.read.format("kafkafs").load("/var/lib/kafka")`.

It works like Spark's own Kafka source. Spark finds it by its name if kafkafs is installed as a wheel; `session` returns
a session that knows it, however kafkafs is installed. Importing this does not need Spark.
"""

from __future__ import annotations

from kafkafs.spark.sessions import read, session

__all__ = ["read", "session"]
