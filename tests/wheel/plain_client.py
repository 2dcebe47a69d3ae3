"""A session of Spark that knows nothing of kafkafs: prints how many rows each of some stores has, and their digest."""

from __future__ import annotations

import hashlib
import json
import sys

from pyspark.sql import SparkSession
from spark_rows import rows_of_table


def main() -> None:
    """Read the stores that the command line names, in the isolation levels that it gives, by the settings in it."""
    builder = SparkSession.builder
    for name, value in json.loads(sys.argv[1]).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for paths, isolation in json.loads(sys.argv[2]):
        reader = spark.read.format("kafkafs").option("includeHeaders", "true")
        rows = rows_of_table(reader.option("kafka.isolation.level", isolation).load(paths).toArrow())
        print(len(rows), hashlib.sha256(repr(rows).encode()).hexdigest())
    spark.stop()


if __name__ == "__main__":
    main()
