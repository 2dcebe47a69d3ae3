"""`groups`: a file for each group that the store's partitions of `__consumer_offsets` tell of.

It has the rows that `kafkafs groups` prints, with tabs between the values, made when it is opened. Groups are called by
their ids, escaped; where an id is too long for a name, the file is found by its hash and tells the id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from kafkafs.locator.errors import BadNameError
from kafkafs.locator.escaping import escape, unescape
from kafkafs.tree.errors import DamagedError, NotThereError
from kafkafs.tree.generated_file import Generated, GeneratedFile
from kafkafs.tree.group_lines import COLUMNS, row_in_a_line, shown_groups
from kafkafs.tree.options import Damage
from kafkafs.tree.store_directory import StoreDirectoryNode
from kafkafs.tree.tab_separated import BoundedRows, tab_separated

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkafs.locator.paths import GroupPath, StoreDirectoryPath
    from kafkafs.tree.context import TreeContext
    from kafkafs.tree.node import Attributes
    from kafkafs.tree.options import TreeOptions
    from storage.cluster import GroupDescription
    from storage.files import Access
    from storage.store import FoundGroups, InternalTopics


class GroupsDirectory(StoreDirectoryNode):
    """All groups by their names."""

    def __init__(self, path: StoreDirectoryPath, context: TreeContext) -> None:
        super().__init__(path, context)
        self._context = context

    def attributes(self) -> Attributes:
        """Report the log directory's time, and the access to the groups' records."""
        return super().attributes()._replace(access=self._context.access_to_groups())

    def names(self) -> Iterator[str]:
        """The names, in their order. Raises `MemoryBudgetError` if groups are missing that do not fit into memory."""
        self._context.sources.refresh()
        found = self._context.internal_topics.groups()
        if found.too_large is not None:
            raise found.too_large.with_traceback(None)
        yield from sorted(map(_name, found.groups))


class GroupFile(GeneratedFile):
    """A group. Where something of the topic cannot be read, reading ends with an error, unless damage is skipped."""

    def __init__(self, path: GroupPath, context: TreeContext) -> None:
        super().__init__(path, context.clock, rights=context.rights)
        self._name = path.name
        self._context = context
        self._skipped = 0
        self._partitions: set[tuple[str, int]] = set()
        if _group_called(path.name, context) is None:
            raise NotThereError(f"{path}: there is no such group")

    def xattrs(self) -> Mapping[str, bytes]:
        """Report how many damaged places were skipped, if damage is skipped."""
        if self._context.options.damage is Damage.STOP:
            return {}
        self.made()
        return {"user.kafkafs.skipped": b"%d" % self._skipped}

    def generate(self) -> Generated:
        """Make its rows."""
        group = _group_called(self._name, self._context)
        if group is None:
            raise NotThereError(f"{self.path}: the group is gone")
        topics, now_ms = self._context.internal_topics, self._clock.now_ms()
        rows = BoundedRows(self._noted(row) for row in shown_groups(topics, [group], now_ms))
        data = tab_separated(COLUMNS, rows)
        shortcomings = topics.groups().shortcomings
        self._skipped = len(shortcomings)
        return Generated(data, now_ms, rows.failure or failure_of(shortcomings, self._context.options))

    def access(self) -> Access:
        """Return the access to the group's records, and to the logs whose ends it tells."""
        self.made()  # which finds the logs
        return self._context.access_to_groups(self._partitions)

    def _noted(self, row: Mapping[str, str | int | None]) -> list[str | int | None]:
        topic, partition = row["topic"], row["partition"]
        if isinstance(topic, str) and isinstance(partition, int):
            self._partitions.add((topic, partition))
        return list(row_in_a_line(row).values())


def _group_called(name: str, context: TreeContext) -> GroupDescription | None:
    """Return the present state of the group whose file has this name.

    Raises `MemoryBudgetError` where there is none, and groups are missing that do not fit into memory.
    """
    context.sources.refresh()
    found = context.internal_topics.groups()
    try:
        identifier = unescape(name)
    except BadNameError:
        return None
    group_id = _hashed(context.internal_topics, found).get(name) if identifier is None else _text(identifier)
    group = None if group_id is None else found.groups.get(group_id)
    if group is None and found.too_large is not None:
        raise found.too_large.with_traceback(None)
    return group


def _hashed(topics: InternalTopics, found: FoundGroups) -> dict[str, str]:
    """The ids that are too long for a name, by the names that they have instead: looked for once a revision."""
    known = _HASHED.get(topics)
    if known is None or known[0] != found.revision:
        names = ((_name(group_id), group_id) for group_id in found.groups if len(group_id) > _SHORT_CHARACTERS_MAX)
        known = _HASHED[topics] = found.revision, {name: of for name, of in names if unescape(name) is None}
    return known[1]


_SHORT_CHARACTERS_MAX: Final = 21
"""Ids of so many characters, each of up to four bytes that are three in a name, never have a hash for a name."""
_HASHED: Final[WeakKeyDictionary[InternalTopics, tuple[int, dict[str, str]]]] = WeakKeyDictionary()


def _name(group_id: str) -> str:
    return escape(group_id.encode(errors="surrogateescape"))


def _text(identifier: bytes) -> str:
    return identifier.decode(errors="surrogateescape")


def failure_of(shortcomings: Sequence[str], options: TreeOptions) -> DamagedError | None:
    """Return the error that ends a file from which something is missing."""
    if not shortcomings or options.damage is Damage.SKIP:
        return None
    return DamagedError(f"{len(shortcomings)} things could not be read, the first being: {shortcomings[0]}")
