"""Jobs over whole stores, each a function that gives a DataFrame: `jobs.stats(spark, "/var/lib/kafka")`.

A job is loaded when it is asked for. Each is in a module of its own name, which this package does not show under it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from kafkafs.spark.jobs.compact import compact
    from kafkafs.spark.jobs.diff import diff
    from kafkafs.spark.jobs.export import export
    from kafkafs.spark.jobs.gaps import gaps
    from kafkafs.spark.jobs.ingest import ingest
    from kafkafs.spark.jobs.ingest_from_kafka import ingest_from_kafka
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


def __getattr__(name: str) -> Callable[..., DataFrame]:
    if name not in __all__:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    job: Callable[..., DataFrame] = getattr(import_module(f"{__name__}.{name}"), name)
    return job


class _Jobs(ModuleType):
    """The package, whose names stay the functions' when their modules are loaded."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in __all__ and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Jobs
