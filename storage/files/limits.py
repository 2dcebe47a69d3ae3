"""The largest small files that are read. No limit keeps out a file that a broker or kafkafs writes.

A file that lies in a store may be any size, and sparse, so nothing is read before its size is known.
"""

from __future__ import annotations

from typing import Final

PROPERTIES_BYTES_MAX: Final = 1024 * 1024
"""What says who a directory belongs to: meta.properties, partition.metadata, quorum-state, and a broker's settings."""

CHECKPOINT_BYTES_MAX: Final = 16 * 1024 * 1024
"""What has a line for each partition, epoch or topic: checkpoints of 400,000 partitions, settings, commits."""

SNAPSHOT_BYTES_MAX: Final = 64 * 1024 * 1024
"""What has an entry for each producer or staged batch: snapshots of 1.4 million producers, indexes of staged files."""
