"""`__consumer_offsets`: committed offsets, and the state of classic, consumer, share and streams groups.

`decode` never raises for any bytes of a record. Types 0 and 1 are offsets, which brokers before 0.9 wrote as 0; both
are read alike. `storage.internal.consumer_protocol` reads the blobs of a classic group's members.
"""

from __future__ import annotations

from typing import Final

from storage.internal.keyed_topic import KeyedTopic

TOPIC: Final = "__consumer_offsets"
OFFSET_COMMIT_TYPES: Final = (0, 1)
GROUP_METADATA_TYPE: Final = 2

_topic = KeyedTopic("offsets", aliases={0: 1})
decode = _topic.decode
encode_key = _topic.encode_key
encode_value = _topic.encode_value
definitions = _topic.definitions
