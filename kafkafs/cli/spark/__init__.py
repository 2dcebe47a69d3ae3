"""`kafkafs spark`: jobs over whole stores, done by Spark.

The columns that a command prints are those of the job's own DataFrame.
"""

from __future__ import annotations

from kafkafs.cli import CommandTable

spark = CommandTable(
    modules={
        "compact": "kafkafs.cli.spark.new_stores",
        "diff": "kafkafs.cli.spark.analysis",
        "export": "kafkafs.cli.spark.transfer",
        "gaps": "kafkafs.cli.spark.analysis",
        "ingest": "kafkafs.cli.spark.transfer",
        "lag": "kafkafs.cli.spark.analysis",
        "rewrite": "kafkafs.cli.spark.new_stores",
        "skew": "kafkafs.cli.spark.analysis",
        "stats": "kafkafs.cli.spark.analysis",
        "verify": "kafkafs.cli.spark.analysis",
    },
    name="spark",
    help="Run a job over a store with Spark, on this machine or on a cluster.\n\n"
    "STORE is one log directory, or several with commas between them, as in log.dirs; every executor must have it "
    "under the same path. Without --master all processors of this machine are used.\n\n"
    "With spark-submit, which only takes Python files:\n\n"
    "\b\n"
    "  spark-submit --master spark://host:7077 \\\n"
    "    $(python -c 'import kafkafs.__main__ as it; print(it.__file__)') spark verify STORE",
    epilog="\b\nExample:\n  kafkafs spark stats /var/lib/kafka --master 'local[4]' --conf spark.driver.memory=4g",
)
