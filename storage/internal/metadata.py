"""`__cluster_metadata`: topics, partitions, settings, brokers and all other state of a KRaft cluster.

Keys are null, and `decode` reads a value; it never raises for any bytes. A `.checkpoint` has the same records in its
batches, between control records, which `storage.internal.control` reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from storage.internal.typed_topic import TypedTopic

if TYPE_CHECKING:
    from collections.abc import Mapping

TOPIC: Final = "__cluster_metadata"
VERSION_FEATURE: Final = "metadata.version"

_VERSIONS: Final = """
    3.0-IV1 3.1-IV0 3.2-IV0 3.3-IV0 3.3-IV1 3.3-IV2 3.3-IV3 3.4-IV0 3.5-IV0 3.5-IV1 3.5-IV2 3.6-IV0 3.6-IV1 3.6-IV2
    3.7-IV0 3.7-IV1 3.7-IV2 3.7-IV3 3.7-IV4 3.8-IV0 3.9-IV0 4.0-IV0 4.0-IV1 4.0-IV2 4.0-IV3 4.1-IV0 4.1-IV1 4.2-IV0
    4.2-IV1 4.3-IV0 4.4-IV0 4.4-IV1 4.4-IV2
"""
VERSION_NAMES: Final[Mapping[int, str]] = dict(enumerate(_VERSIONS.split(), start=1))
"""Kafka's names for the levels of the feature `metadata.version`, each after the release that introduced it.

The names of newer levels are not known here.
"""

_topic = TypedTopic("metadata")
decode = _topic.decode
encode = _topic.encode
definition = _topic.definition
