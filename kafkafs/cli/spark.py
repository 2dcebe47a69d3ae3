"""`kafkafs spark`: jobs over whole stores, done by Spark."""

from __future__ import annotations

from kafkafs.cli.command_table import CommandTable

spark = CommandTable(
    modules={
        "compact": "kafkafs.cli.jobs.compact",
        "diff": "kafkafs.cli.jobs.diff",
        "export": "kafkafs.cli.jobs.export",
        "gaps": "kafkafs.cli.jobs.gaps",
        "ingest": "kafkafs.cli.jobs.ingest",
        "lag": "kafkafs.cli.jobs.lag",
        "rewrite": "kafkafs.cli.jobs.rewrite",
        "skew": "kafkafs.cli.jobs.skew",
        "stats": "kafkafs.cli.jobs.stats",
        "verify": "kafkafs.cli.jobs.verify",
    },
    name="spark",
    help="Run a job over a store with Spark, on this machine or on a cluster.\n\n"
    "STORE is one log directory, or several with commas between them, as in log.dirs; every executor has to reach it "
    "under the same path. Without --master all processors of this machine are used.\n\n"
    "With spark-submit, which takes Python files only:\n\n"
    "\b\n"
    "  spark-submit --master spark://host:7077 \\\n"
    "    $(python -c 'import kafkafs.__main__ as it; print(it.__file__)') spark verify STORE",
    epilog="\b\nExample:\n  kafkafs spark stats /var/lib/kafka --master 'local[4]' --conf spark.driver.memory=4g",
)
