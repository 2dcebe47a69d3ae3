"""The words and forms that topic settings have for values of their own."""

from __future__ import annotations

import re
from typing import Final

from storage.config.kinds import Choice, Pattern
from storage.record.compression import Codec
from storage.record.layout import TimestampType

# `producer` keeps the codec of the arriving batch.
COMPRESSION_TYPES: Final[Choice[Codec | None]] = Choice(
    {
        "uncompressed": Codec.NONE,
        "zstd": Codec.ZSTD,
        "lz4": Codec.LZ4,
        "snappy": Codec.SNAPPY,
        "gzip": Codec.GZIP,
        "producer": None,
    }
)
TIMESTAMP_TYPES: Final = Choice(
    {kind.label: kind for kind in (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)}
)
REPLICAS: Final = Pattern(
    re.compile(r"(\*|[0-9]+:[0-9]+(,[0-9]+:[0-9]+)*)?"), "partition:broker,partition:broker,…, or * for all, or nothing"
)

# The versions of message.format.version: those with their own meaning, and those whose name means the last of several
# IVs. 4.0 was to come when 3.9 was made.
_PLAIN_VERSIONS: Final = "0.8.0 0.8.1 0.8.2 0.9.0 4.0-IV0 4.0-IV1"
_LAST_VERSIONS: Final = (
    "0.10.0-IV1 0.10.1-IV2 0.10.2-IV0 0.11.0-IV2 1.0-IV0 1.1-IV0 2.0-IV1 2.1-IV2 2.2-IV1 2.3-IV1 2.4-IV1 2.5-IV0 "
    "2.6-IV0 2.7-IV2 2.8-IV1 3.0-IV1 3.1-IV0 3.2-IV0 3.3-IV3 3.4-IV0 3.5-IV2 3.6-IV2 3.7-IV4 3.8-IV0 3.9-IV0"
)
_VERSION: Final = "|".join(
    [re.escape(version) for version in _PLAIN_VERSIONS.split()]
    + [
        rf"{re.escape(version)}(?:-IV[0-{last}])?"
        for version, _, last in (text.partition("-IV") for text in _LAST_VERSIONS.split())
    ]
)
# Kafka takes anything after a dot. Taken here is what is neither a comment nor a control character where it is shown.
_REST: Final = r"\.[!-\"$-~]*[!-\"$-\-/-~]"
FORMAT_VERSIONS: Final = Pattern(re.compile(rf"(?:{_VERSION})(?:{_REST})?"), "a version of Kafka from 0.8.0 to 3.9")
