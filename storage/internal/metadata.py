"""`__cluster_metadata`: topics, partitions, settings, brokers and all else that a KRaft cluster knows of itself.

Keys are null, and `decode` reads a value; it never raises for any bytes. A `.checkpoint` has the same records
in its batches, between control records, which `storage.internal.control` reads.
"""

from __future__ import annotations

from typing import Final

from storage.internal.typed_topic import TypedTopic

TOPIC: Final = "__cluster_metadata"

_topic = TypedTopic("metadata")
decode = _topic.decode
encode = _topic.encode
definition = _topic.definition
