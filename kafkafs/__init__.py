"""kafkafs: a Kafka log as files, and as a Python library.

    with kafkafs.open("/var/lib/kafka") as store:
        for record in store["orders"].records(times="-15m.."):
            print(record.offset, record.value)

`kafkafs help python` is its page. Importing this costs nothing: each name is loaded when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkafs.library import (
        BadNameError,
        ConfigError,
        CorruptBatchError,
        CorruptIndexError,
        DiskFullError,
        Finding,
        InvalidRecordError,
        InvalidTopicError,
        NotAStoreError,
        Partition,
        PoisonedLogError,
        ReadOnlyStoreError,
        Record,
        RecordsGoneError,
        Row,
        StorageError,
        Store,
        StoreLockedError,
        Topic,
        TopicExistsError,
        UnknownPartitionError,
        open,  # noqa: A004 -- as gzip and io call theirs
    )

__all__ = [
    "BadNameError",
    "ConfigError",
    "CorruptBatchError",
    "CorruptIndexError",
    "DiskFullError",
    "Finding",
    "InvalidRecordError",
    "InvalidTopicError",
    "NotAStoreError",
    "Partition",
    "PoisonedLogError",
    "ReadOnlyStoreError",
    "Record",
    "RecordsGoneError",
    "Row",
    "StorageError",
    "Store",
    "StoreLockedError",
    "Topic",
    "TopicExistsError",
    "UnknownPartitionError",
    "__version__",
    "open",
]

__version__: str


if not TYPE_CHECKING:  # a type checker knows the names, and finds those that there are not

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from importlib.metadata import version

            return version("kafkafs")
        if name in __all__:
            from kafkafs import library

            found = globals()[name] = getattr(library, name)
            return found
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
