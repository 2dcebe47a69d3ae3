"""`cluster/topics`, `brokers`, `configs` and so on: what the cluster's metadata log says, as a table and as JSON lines.

Each is made from the log as it is when the file is opened. A log that is damaged says nothing that can be relied on
from there on: reading ends with that error after all that was read before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkafs.plain_text import field
from kafkafs.tree.cluster_rows import COLUMNS, ROWS, VOTERS, cells, voter_rows
from kafkafs.tree.errors import DamagedError, NotThereError
from kafkafs.tree.generated_file import Generated, GeneratedFile
from kafkafs.tree.json_rows import json_lines
from kafkafs.tree.tab_separated import tab_separated
from storage.errors import CorruptMetadataError, StorageError
from storage.log_dir import CLUSTER_METADATA

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from kafkafs.locator.paths import ClusterPath
    from kafkafs.tree.cluster_rows import Row
    from kafkafs.tree.context import TreeContext
    from kafkafs.tree.shared_text import Text
    from storage.cluster import QuorumState
    from storage.internal import ClusterImage

LINES_SUFFIX: Final = ".jsonl"
VIEW_NAMES: Final = tuple(name for view in (*ROWS, VOTERS) for name in (view, f"{view}{LINES_SUFFIX}"))


class ClusterView(GeneratedFile):
    """One of the views, as a table or with a JSON object a line."""

    def __init__(self, path: ClusterPath, context: TreeContext, name: str) -> None:
        super().__init__(path, context.clock, rights=context.rights, access=context.access_to_cluster)
        self._store = context.store
        self._texts = context.cluster_texts
        self._name = name
        self._text: Text | None = None  # of the last version, for those who ask next
        self._metadata = context.store.cluster
        self._view = name.removesuffix(LINES_SUFFIX)
        self._is_lines = name.endswith(LINES_SUFFIX)

    def generate(self) -> Generated:
        """Read what is new in the log, and make the file."""
        log = self._metadata.log()
        if log is None:
            raise NotThereError(f"{self.path}: the store has no metadata log")
        quorum = None
        damages: list[StorageError] = []
        if self._view == VOTERS:
            try:
                quorum = log.quorum_state()
            except CorruptMetadataError as error:
                damages.append(error)
        version = (self._version(), repr(quorum))
        self._text = self._texts.get(self._name, version)
        if self._text is None:
            rows = log.ask(lambda image: list(self._rows(image, quorum)))  # others who ask wait for this alone
            self._text = self._texts.put(self._name, version, self._text_of(rows))
        damages += [] if log.damage is None else [log.damage]
        failure = DamagedError(str(damages[0])) if damages else None
        return Generated(self._text.data, self._modified_ms(), failure)

    def _rows(self, image: ClusterImage, quorum: QuorumState | None) -> Iterator[Row]:
        return voter_rows(image, quorum) if self._view == VOTERS else ROWS[self._view](image)

    def _text_of(self, rows: Iterable[Row]) -> bytes:
        if self._is_lines:
            return json_lines(rows)
        return tab_separated(COLUMNS[self._view], ([_cell(each) for each in cells(self._view, row)] for row in rows))

    def _version(self) -> Hashable:
        """Return what is another once the log says more, or once it was replaced or cut."""
        view = self._store.log(CLUSTER_METADATA, 0).view
        return view.start_offset, view.end_offset, view.truncations, view.segments[-1:]

    def _modified_ms(self) -> int:
        view = self._store.log(CLUSTER_METADATA, 0).view
        status = view.segments[-1].log_status() if view.segments else None
        return 0 if status is None else status.modified_ms


def _cell(value: object) -> object:
    return field(value.encode(errors="replace").decode()) if isinstance(value, str) else value
