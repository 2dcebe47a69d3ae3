"""`groups`: a file for each group that the store's partitions of `__consumer_offsets` tell of.

It has the rows that `kafkafs groups` prints, with tabs between the values, made when it is opened. Groups are called by
their ids, escaped; where an id is too long for a name, the file is found by its hash and tells the id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkafs.locator.escaping import escape
from kafkafs.tree.errors import DamagedError, NotThereError
from kafkafs.tree.generated_file import Generated, GeneratedFile
from kafkafs.tree.group_lines import COLUMNS, row_in_a_line, shown_groups
from kafkafs.tree.options import Damage
from kafkafs.tree.store_directory import StoreDirectoryNode
from kafkafs.tree.tab_separated import tab_separated

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkafs.locator.paths import GroupPath, StoreDirectoryPath
    from kafkafs.tree.options import TreeOptions
    from kafkafs.tree.tree import Tree
    from storage.cluster.group_description import GroupDescription


class GroupsDirectory(StoreDirectoryNode):
    """All groups by their names."""

    def __init__(self, path: StoreDirectoryPath, tree: Tree) -> None:
        super().__init__(path, tree.store)
        self._tree = tree

    def names(self) -> Iterator[str]:
        """The names, in their order."""
        yield from sorted(groups_by_name(self._tree))


class GroupFile(GeneratedFile):
    """A group. Where something of the topic cannot be read, reading ends with an error, unless damage is skipped."""

    def __init__(self, path: GroupPath, tree: Tree) -> None:
        super().__init__(path, tree.clock, place=tree.store.log_dirs[0].path)
        self._name = path.name
        self._tree = tree
        self._skipped = 0
        if path.name not in groups_by_name(tree):
            raise NotThereError(f"{path}: there is no such group")

    def xattrs(self) -> Mapping[str, bytes]:
        """How many places were passed over, where that can be."""
        if self._tree.options.damage is Damage.STOP:
            return {}
        self.made()
        return {"user.kafkafs.skipped": b"%d" % self._skipped}

    def generate(self) -> Generated:
        """Make its rows."""
        group = groups_by_name(self._tree).get(self._name)
        if group is None:
            raise NotThereError(f"{self.path}: the group is gone")
        topics, now_ms = self._tree.internal_topics, self._clock.now_ms()
        rows = (list(row_in_a_line(row).values()) for row in shown_groups(topics, [group], now_ms))
        shortcomings = topics.groups().shortcomings
        self._skipped = len(shortcomings)
        return Generated(tab_separated(COLUMNS, rows), now_ms, failure_of(shortcomings, self._tree.options))


def groups_by_name(tree: Tree) -> dict[str, GroupDescription]:
    """The groups as they are now, by the names of their files."""
    tree.sources.refresh()
    groups = tree.internal_topics.groups().groups.values()
    return {escape(group.group_id.encode(errors="surrogateescape")): group for group in groups}


def failure_of(shortcomings: Sequence[str], options: TreeOptions) -> DamagedError | None:
    """The error that is met at the end of a file from which something is missing."""
    if not shortcomings or options.damage is Damage.SKIP:
        return None
    return DamagedError(f"{len(shortcomings)} things could not be read, the first being: {shortcomings[0]}")
