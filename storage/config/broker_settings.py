"""The settings that a broker has for all its logs at once, and that no topic has."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from storage.config.kinds import INT_MAX, LONG_MAX, Boolean, Directories, Integer, Real
from storage.config.setting import BrokerKey, Setting

if TYPE_CHECKING:
    from collections.abc import Mapping

_SETTINGS: Final[tuple[Setting[Any], ...]] = (
    Setting(
        "log.cleaner.backoff.ms",
        Integer(0),
        15_000,
        "how long a cleaner that found nothing to clean waits before it looks again",
    ),
    Setting(
        "log.cleaner.dedupe.buffer.size",
        Integer(0),
        128 * 1024 * 1024,
        "memory for the maps of keys of all cleaners together",
        renamed="log_cleaner_dedupe_buffer_bytes",
    ),
    Setting("log.cleaner.enable", Boolean(), True, "whether compacted topics are cleaned at all"),
    Setting("log.cleaner.io.buffer.load.factor", Real(0, 1), 0.9, "how full a cleaner's map of keys may become"),
    Setting(
        "log.cleaner.io.buffer.size",
        Integer(0, INT_MAX),
        512 * 1024,
        "memory for the reading and writing of all cleaners together",
        renamed="log_cleaner_io_buffer_bytes",
    ),
    Setting(
        "log.cleaner.io.max.bytes.per.second",
        Real(0, sys.float_info.max),
        sys.float_info.max,
        "how much all cleaners together may read and write in a second",
        renamed="log_cleaner_io_bytes_per_second_max",
    ),
    Setting("log.cleaner.threads", Integer(1, INT_MAX), 1, "how many logs are cleaned at the same time"),
    Setting(
        "log.dir.failure.timeout.ms",
        Integer(1),
        30_000,
        "how long a broker may fail to tell the controller of a failed log dir before it stops",
    ),
    Setting(
        "log.dirs",
        Directories(),
        ("/tmp/kafka-logs",),  # noqa: S108 - Kafka's own default
        "the directories that hold partitions",
        (BrokerKey("log.dirs"), BrokerKey("log.dir")),
    ),
    Setting(
        "log.flush.offset.checkpoint.interval.ms", Integer(0, INT_MAX), 60_000, "how often recovery points are written"
    ),
    Setting(
        "log.flush.scheduler.interval.ms",
        Integer(0),
        LONG_MAX,
        "how often logs are looked at for whether their `flush.ms` is over",
    ),
    Setting(
        "log.flush.start.offset.checkpoint.interval.ms",
        Integer(0, INT_MAX),
        60_000,
        "how often log start offsets are written",
    ),
    Setting("log.initial.task.delay.ms", Integer(0), 30_000, "how long after opening the periodic work begins"),
    Setting(
        "log.retention.check.interval.ms", Integer(1), 300_000, "how often logs are looked at for segments to delete"
    ),
    Setting("num.partitions", Integer(1, INT_MAX), 1, "how many partitions a topic gets by default"),
    Setting(
        "num.recovery.threads.per.data.dir",
        Integer(1, INT_MAX),
        1,
        "how many logs of each log dir are loaded or closed at the same time",
        since_4="4.0: the default is 2",
    ),
    Setting(
        "producer.id.expiration.check.interval.ms",
        Integer(1, INT_MAX),
        600_000,
        "how often producers are looked at for whether they have expired",
    ),
    Setting(
        "producer.id.expiration.ms",
        Integer(1, INT_MAX),
        86_400_000,
        "how long after its last batch a producer without an open transaction is remembered",
    ),
    Setting(
        "replica.high.watermark.checkpoint.interval.ms", Integer(0), 5_000, "how often high watermarks are written"
    ),
)

# Each is its own source, unless the table names others.
BROKER_SETTINGS: Final[Mapping[str, Setting[Any]]] = MappingProxyType(
    {
        setting.key: replace(setting, broker_keys=setting.broker_keys or (BrokerKey(setting.key),))
        for setting in _SETTINGS
    }
)
