"""The cluster's metadata log followed: its newest snapshot, the log after it, and what brokers append meanwhile.

`MetadataLog.ask` answers from everything that the log holds at that moment; what was read once is not read again. Only
records that a snapshot or the log holds whole count: reading ends before damage, which `damage` names, because a
record that is missing may have changed what every later one means. The end of the log is that of this replica, so the
last records may be ones that the quorum has not committed.
"""

from __future__ import annotations

import re
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from storage.budget import MEMORY
from storage.cluster.image_memory import ImageMemory, state_of
from storage.cluster.quorum_state import read_quorum_state
from storage.errors import (
    CorruptBatchError,
    CorruptMetadataError,
    MemoryBudgetError,
    OffsetOutOfRangeError,
    StorageError,
)
from storage.internal import Message, control, metadata
from storage.internal.cluster_image import BROKER_RESOURCE, TOPIC_RESOURCE, ClusterImage, RecordedSetting
from storage.internal.measuring import ENTRY_BYTES, measured
from storage.record.batch import RecordBatch
from storage.segment.scan import LogScan

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping
    from uuid import UUID

    from storage.cluster.quorum_state import QuorumState
    from storage.files import Directory
    from storage.log.readable_log import ReadableLog
    from storage.log.view import LogView
    from storage.record.kernel.decode import Record
    from storage.record.reading import Batch

T = TypeVar("T")

_SNAPSHOT_FOOTER: Final = "SnapshotFooterRecord"
_RAW: Final = "type {0} version {1}"
_SNAPSHOT: Final = re.compile(r"[0-9]{20}-[0-9]{10}\.checkpoint")
_LEFT_OVER: Final = re.compile(r"[0-9]{20}-[0-9]{10}(?:-.*)?\.checkpoint\.(?:part|deleted)", re.DOTALL)


def is_metadata_snapshot(name: str) -> bool:
    """True if a file beside the cluster's metadata log is a snapshot that counts."""
    return _SNAPSHOT.fullmatch(name) is not None


def snapshot_end(name: str) -> int:
    """The end offset of a snapshot: that of the first record of the log that it does not hold."""
    return int(name.partition("-")[0])


def is_left_of_metadata_snapshot(name: str) -> bool:
    """True if the file is a snapshot that is being written or removed; a node that starts removes it."""
    return _LEFT_OVER.fullmatch(name) is not None


class MetadataLog:
    """The metadata log in one directory, which `log` reads. Any thread may ask; they take turns.

    With `keeps_secrets` the image has the credentials of users whole, for who makes a cluster of it.
    """

    def __init__(self, directory: Directory, log: ReadableLog, *, keeps_secrets: bool = False) -> None:
        self._keeps_secrets = keeps_secrets
        self._directory = directory
        self._log = log
        self._asking = Lock()
        self._memory = ImageMemory()
        self._account = MEMORY.account(self._give_back)
        self._state: Hashable = None  # of the log and its snapshots, when reading began
        self._view: LogView | None = None
        self._position = 0  # the offset to read on at
        self._image = self._new_image()
        self._gap: StorageError | None = None
        self._passed: frozenset[str] = frozenset()  # the snapshots that were there when the gap was found
        self._damage: StorageError | None = None

    def ask(self, question: Callable[[ClusterImage], T]) -> T:
        """Ask the cluster as it is now. The image changes later, so the answer must not keep it.

        Raises `OSError` where the log or the snapshot that it goes on from cannot be read, `MemoryBudgetError` where
        the budget has no room for the image, and `MustWaitError` in a thread that may not wait until either was read.
        """
        MEMORY.acquire(self._asking)
        try:
            self._read_on()
            return question(self._image)
        finally:
            self._asking.release()

    def quorum_state(self) -> QuorumState | None:
        """Return what the node of this replica remembers of the quorum's elections, None if it has no such file.

        Raises `CorruptMetadataError` for a file that no broker reads.
        """
        return read_quorum_state(self._directory)

    @property
    def damage(self) -> StorageError | None:
        """Return why the last image may differ from a broker's, None if it does not.

        Damage ended the reading before the log's end, or no snapshot has the records before the log's start.
        """
        return self._damage or self._gap

    def _read_on(self) -> None:
        view = self._log.view
        before = self._view if self._gap is None or self._passed == self._snapshots() else None
        if view is before:
            return
        MEMORY.check_lease()
        try:
            if before is None or self._is_replaced(before, view):
                self._begin(view)
            self._damage = None
            try:
                self._read_log(view)
            except CorruptBatchError as error:
                self._damage = error
            self._memory.settle()
        except MemoryBudgetError:
            self._forget()
            self._memory.refuse()
            raise
        self._view = view

    def _forget(self) -> None:
        self._view = None
        self._image = self._new_image()

    def _give_back(self, _size_bytes: int) -> None:
        """Forget a large image, unless it is asked, and give its memory back. Any thread may call this."""
        if self._memory.is_large and self._asking.acquire(blocking=False):
            try:
                self._forget()
                self._memory.end()
            finally:
                self._asking.release()

    def _is_replaced(self, before: LogView, now: LogView) -> bool:
        """True if a reader of the whole log would now read other records."""
        cuts = now.cuts[len(before.cuts) :] if now.cuts[: len(before.cuts)] == before.cuts else (0,)
        return any(cut < self._position for cut in cuts) or not now.start_offset <= self._position <= now.end_offset

    def _begin(self, view: LogView) -> None:
        """Begin with the newest snapshot that is whole, or with the beginning of the log.

        A snapshot that ends after the log takes its place, as it does for a node that starts: the node fetched the
        snapshot from the leader, and ended before it emptied its log.
        """
        refused: OSError | None = None
        self._forget()
        self._position = view.start_offset
        self._gap, self._passed = None, self._snapshots()
        self._state = (state_of(view), self._passed)
        self._begin_memory(self._image)
        for name in sorted(self._passed, key=snapshot_end, reverse=True):
            if snapshot_end(name) < view.start_offset:
                break  # the log goes on later than the snapshot ends
            try:
                self._image = self._snapshot(name)
            except MemoryBudgetError:
                raise
            except (StorageError, FileNotFoundError):
                self._begin_memory(self._image)
                continue  # an older one, and more of the log, say the same
            except OSError as error:
                self._begin_memory(self._image)
                refused = refused or error
                continue
            self._image.end_offset = self._position = snapshot_end(name)
            return
        if view.start_offset > 0:
            if refused is not None:
                raise refused
            reason = f"the log begins at offset {view.start_offset}, and no whole snapshot ends there or later"
            self._gap = CorruptMetadataError(reason, path=self._directory.path)

    def _snapshots(self) -> frozenset[str]:
        return frozenset(filter(is_metadata_snapshot, self._directory.names()))

    def _snapshot(self, name: str) -> ClusterImage:
        """Read a snapshot; raises `StorageError` if it is not whole."""
        image = self._new_image(name.partition(".")[0])
        self._begin_memory(image)
        read_snapshot(self._directory, name, image, self._memory)
        return image

    def _begin_memory(self, image: ClusterImage) -> None:
        self._memory.begin(image, f"the records of {self._directory.path}", self._state)

    def _new_image(self, snapshot: str = "") -> ClusterImage:
        return ClusterImage(snapshot=snapshot, keeps_secrets=self._keeps_secrets)

    def _read_log(self, view: LogView) -> None:
        while self._position < view.end_offset:  # not so where the snapshot ends after the log
            try:
                fetched = self._log.read(self._position)
            except OffsetOutOfRangeError:  # segments went, or records were truncated, since the view was taken
                view = self._log.view
                self._begin(view)
                continue
            for batch in fetched.batches:
                _apply(self._image, batch, self._position, self._memory)
                self._position = batch.last_offset + 1
            if not fetched.batches:
                return


def read_snapshot(directory: Directory, name: str, image: ClusterImage, memory: ImageMemory) -> None:
    """Let the image take in the records of a snapshot; raises `StorageError` if the file is not whole."""
    last = None
    with directory.open_reading(name) as file:
        scan = LogScan(file)
        for batch in scan:
            batch.check_crc()
            last = _apply(image, batch, None, memory) or last
        if scan.trailing_bytes or last != _SNAPSHOT_FOOTER:
            raise CorruptMetadataError("the snapshot is not whole", path=directory.path_of(name))


def _apply(image: ClusterImage, batch: Batch, from_offset: int | None, memory: ImageMemory) -> str | None:
    """Take in the records of a batch, of the log only those from an offset on; gives the last control record's name."""
    if not isinstance(batch, RecordBatch):
        return None
    last = None
    for record in batch.records():
        if from_offset is not None and record.offset < from_offset:
            continue
        offset = None if from_offset is None else record.offset
        if batch.is_control:
            found = control.decode(record.key, record.value)
            if isinstance(found, Message):
                last = found.name
                image.apply_control(found.name, found.fields, offset)
                memory.add(measured(found.fields))
        elif record.value is not None:
            _apply_value(image, record, offset, memory)
    return last


def _apply_value(image: ClusterImage, record: Record, offset: int | None, memory: ImageMemory) -> None:
    outcome = metadata.decode(record.value or b"")
    if isinstance(outcome, Message):
        image.apply(outcome.name, outcome.fields, offset)
        if outcome.name in SETTING_RECORDS:
            image.settings_ms = max(image.settings_ms, record.timestamp)
        memory.add(ENTRY_BYTES + measured(outcome.fields))
        return
    definition = None if outcome.type is None else metadata.definition(outcome.type)
    if definition is not None:
        image.unread.setdefault(definition.name, outcome.reason)
    image.apply(_RAW.format(outcome.type, outcome.version), {}, offset)
    memory.add(ENTRY_BYTES + measured(outcome.reason))


SETTING_RECORDS: Final = ("ConfigRecord", "TopicRecord", "RemoveTopicRecord")
"""The types of the records that say which settings a topic or a broker has."""

_RELEASES: Final = ((32, (4, 4)), (22, (4, 0)))
"""The levels 4.4-IV1 and 4.0-IV0, which no broker of an earlier release knows; 4.3 knows 4.4-IV0 for tests."""


class ToldSettings(NamedTuple):
    """The settings of a topic and of a broker, by their keys.

    `topic_id` is None if the cluster has no topic of that name. The cluster's settings of this broker override its
    settings of all brokers. `release` is the broker's, as `Sources` has it.
    """

    topic_id: UUID | None
    topic: Mapping[str, RecordedSetting]
    broker: Mapping[str, RecordedSetting]
    snapshot: str
    release: tuple[int, int]

    def origin(self, setting: RecordedSetting) -> str:
        """Return the place of the setting, as `config` prints it."""
        place = f"snapshot {self.snapshot}" if setting.offset is None else f"offset {setting.offset}"
        return f"metadata log, {place}"


def told_settings(image: ClusterImage, topic: str, node_id: int | None) -> ToldSettings:
    """Return the cluster's settings of the topic and of the broker. The result shares nothing with the image."""
    found = image.topic(topic)
    own = {} if node_id is None else image.settings_of(BROKER_RESOURCE, str(node_id))
    return ToldSettings(
        topic_id=None if found is None else found.topic_id,
        topic=dict(image.settings_of(TOPIC_RESOURCE, topic)),
        broker={**image.settings_of(BROKER_RESOURCE, ""), **own},
        snapshot=image.snapshot,
        release=_release(image, node_id),
    )


def _release(image: ClusterImage, node_id: int | None) -> tuple[int, int]:
    """Return the release by the broker's registration, or by what the cluster as a whole has agreed on."""
    registration = None if node_id is None else image.brokers.get(node_id)
    features = () if registration is None else registration.get("features", ())
    supported = [each["maxSupportedVersion"] for each in features if each["name"] == metadata.VERSION_FEATURE]
    level = max(supported, default=image.features.get(metadata.VERSION_FEATURE, 0))
    return next((release for least, release in _RELEASES if level >= least), (3, 9))
