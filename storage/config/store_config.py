"""The settings in force for a store, and for its topics where they state none."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self

from storage.config.broker_settings import BROKER_SETTINGS
from storage.config.topic_config import TopicConfig
from storage.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_DEDUPE_BUFFER_BYTES_ABOVE: Final = 1024 * 1024  # for each thread


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """The settings that topics do not have, each allowed and all of them together; `BROKER_SETTINGS` explains them.

    Made by `resolve`. `broker` is everything that it was given, from which topics take what they do not say.
    """

    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_bytes: int
    log_cleaner_enable: bool
    log_cleaner_io_buffer_load_factor: float
    log_cleaner_io_buffer_bytes: int
    log_cleaner_io_bytes_per_second_max: float
    log_cleaner_threads: int
    log_dir_failure_timeout_ms: int
    log_dirs: tuple[str, ...]
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_scheduler_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    log_initial_task_delay_ms: int
    log_retention_check_interval_ms: int
    num_partitions: int
    num_recovery_threads_per_data_dir: int
    producer_id_expiration_check_interval_ms: int
    producer_id_expiration_ms: int
    replica_high_watermark_checkpoint_interval_ms: int
    broker: Mapping[str, str] = field(hash=False, repr=False)

    @classmethod
    def resolve(cls, broker: Mapping[str, str] = _NONE) -> Self:
        """Return the settings in force for a broker with these; those that do not concern storage are ignored.

        Raises `ConfigError` for a value that is not allowed, those for topics included, and for values that are not
        allowed together.
        """
        values: dict[str, Any] = {}
        for setting in BROKER_SETTINGS.values():
            given = setting.broker_values(broker)
            values[setting.attribute] = given[0] if given else setting.default
        config = cls(**values, broker=MappingProxyType(dict(broker)))
        config._check_dedupe_buffer()
        config.topic()
        return config

    def topic(self, overrides: Mapping[str, str] = _NONE) -> TopicConfig:
        """Return the settings in force for a topic of this store; raises as `TopicConfig.resolve` does."""
        return TopicConfig.resolve(overrides, self.broker)

    def _check_dedupe_buffer(self) -> None:
        buffer_bytes, threads = self.log_cleaner_dedupe_buffer_bytes, self.log_cleaner_threads
        if buffer_bytes // threads <= _DEDUPE_BUFFER_BYTES_ABOVE:
            raise ConfigError(
                f"log.cleaner.dedupe.buffer.size={buffer_bytes} is refused: for {threads} log.cleaner.threads it must "
                f"be at least {threads * (_DEDUPE_BUFFER_BYTES_ABOVE + 1)}"
            )
