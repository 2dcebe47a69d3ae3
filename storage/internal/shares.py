"""`__share_group_state`: the progress of share groups in each partition, as snapshots and the updates since.

`decode` never raises for any bytes of a record.
"""

from __future__ import annotations

from typing import Final

from storage.internal.keyed_topic import KeyedTopic

TOPIC: Final = "__share_group_state"
SHARE_SNAPSHOT_TYPE: Final = 0
SHARE_UPDATE_TYPE: Final = 1

_topic = KeyedTopic("shares")
decode = _topic.decode
encode_key = _topic.encode_key
encode_value = _topic.encode_value
definitions = _topic.definitions
