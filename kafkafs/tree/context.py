"""What the nodes of one tree share: the store and its logs, the options, the clock and the counted sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkafs.tree.log_sources import LogSources
from storage.store import InternalTopics

if TYPE_CHECKING:
    from kafkafs.content import SizeCache
    from kafkafs.tree.options import TreeOptions
    from storage.clock import Clock
    from storage.store import Store


class TreeContext:
    """The store of a tree as its nodes see it. Any thread may use it.

    `sources` has the logs of the partitions, `internal_topics` what the brokers' own topics say, `sizes` the sizes of
    decoded files.
    """

    def __init__(self, store: Store, options: TreeOptions, *, clock: Clock, sizes: SizeCache) -> None:
        self.store = store
        self.options = options
        self.clock = clock
        self.sizes = sizes
        self.sources = LogSources(store, options, clock=clock)
        self.internal_topics = InternalTopics(store, clock, self.sources.log)
