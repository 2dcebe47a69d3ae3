"""A client of Spark Connect: prints how many rows a store has, and their digest."""

from __future__ import annotations

import hashlib
import json
import sys

from spark_rows import rows_of_table

from kafkafs.spark import session


def main() -> None:
    """Read the store that the command line names, by the settings that it gives."""
    spark = session(json.loads(sys.argv[1]))
    try:
        reader = spark.read.format("kafkafs").option("includeHeaders", "true")
        rows = rows_of_table(reader.option("kafka.isolation.level", "read_committed").load(sys.argv[2]).toArrow())
    finally:
        spark.stop()
    print(len(rows), hashlib.sha256(repr(rows).encode()).hexdigest())


if __name__ == "__main__":
    main()
