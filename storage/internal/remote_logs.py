"""`__remote_log_metadata`: which segments of which partitions lie in tiered storage, and in what state.

Keys are null, and `decode` reads a value; it never raises for any bytes.
"""

from __future__ import annotations

from typing import Final

from storage.internal.typed_topic import TypedTopic

TOPIC: Final = "__remote_log_metadata"

_topic = TypedTopic("remote_logs")
decode = _topic.decode
encode = _topic.encode
definition = _topic.definition
