"""The partitions that paths and patterns of a command line mean, and in which form each is shown.

A path leads to a stream of the tree (`orders/0/values`), a partition, a topic or the root; the names of topics and the
numbers of partitions may be patterns of a shell.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.locator.descent import parse_path
from kafkafs.locator.errors import BadNameError
from kafkafs.locator.formats import Format
from kafkafs.locator.paths import PartitionFilePath, PartitionPath, RootPath, TopicPath
from kafkafs.locator.views import View

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    from storage.log_dir import Inventory

_PATTERN: Final = re.compile(r"[*?[]")
_STAND_INS: Final = ("topic", "0")  # for a topic and a partition, whose names may be patterns
_FORMATS: Final[Mapping[View, Format]] = {
    View.VALUES: Format.VALUE,
    View.KEYS: Format.KEY,
    View.RECORDS: Format.JSONL,
}
_GROWING: Final = (
    f"what grows by records; there are TOPIC, TOPIC/PARTITION, and in a partition {', '.join(map(str, _FORMATS))}"
)


class Followed(NamedTuple):
    """A partition, and the form in which its records are shown."""

    topic: str
    partition: int
    form: Format


@dataclass(frozen=True, slots=True)
class Target:
    """What one path means: the partitions that two patterns match, of which the first may be a topic's name."""

    topic: str
    is_pattern: bool
    partition: str
    form: Format

    def matches(self, inventory: Inventory) -> Iterator[Followed]:
        """Yield the partitions that there are, in their order."""
        for topic, partitions in inventory.topics.items():
            if self._means(topic):
                for partition in partitions:
                    if fnmatchcase(str(partition), self.partition):
                        yield Followed(topic, partition, self.form)

    def _means(self, topic: str) -> bool:
        """Return True for the topic, or one that the pattern matches; names with a dot in front want one in it."""
        if not self.is_pattern:
            return topic == self.topic
        return topic.startswith(".") <= self.topic.startswith(".") and fnmatchcase(topic, self.topic)


def parse_target(text: str, topics: Container[str]) -> Target:
    """Raise `BadNameError` for a path that is no partition's. `topics` are those that exist, as paths have them."""
    names = [name for name in text.split("/") if name not in {"", "."}]
    patterns = {at: name for at, name in enumerate(names[: len(_STAND_INS)]) if _PATTERN.search(name)}
    path = parse_path("/".join(_STAND_INS[at] if at in patterns else name for at, name in enumerate(names)), topics)
    form = Format.JSONL
    if isinstance(path, PartitionFilePath) and path.view in _FORMATS:
        form, path = _FORMATS[path.view], path.log
    partition = "*"
    if isinstance(path, PartitionPath):
        partition, path = str(path.partition), path.topic
    if not isinstance(path, TopicPath | RootPath):
        raise BadNameError(text, _GROWING)
    topic = patterns.get(0, path.topic if isinstance(path, TopicPath) else "*")
    is_pattern = 0 in patterns or isinstance(path, RootPath)
    return Target(topic, is_pattern, patterns.get(1, partition), form)
