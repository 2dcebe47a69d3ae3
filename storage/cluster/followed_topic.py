"""The partitions of an internal topic that a store has, each followed by a replay of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from storage.cluster.log_replay import LogReplay
from storage.errors import StorageError, UnknownPartitionError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from storage.log.readable_log import ReadableLog

Replay = TypeVar("Replay", bound=LogReplay)


class FollowedTopic(Generic[Replay]):
    """Replays by the numbers of their partitions; not for several threads.

    `revision` grows whenever a look has found something new, or that something is gone.
    """

    def __init__(self, replay: Callable[[ReadableLog], Replay]) -> None:
        self.revision = 0
        self._replay = replay
        self._failures: dict[int, Exception] = {}
        self.partitions: dict[int, Replay] = {}

    def look(self, logs: Mapping[int, ReadableLog]) -> None:
        """Take what is new in these logs; partitions that are not among them are forgotten.

        A log that cannot be read is one of the `shortcomings`, and what was known of it stays.
        """
        before = {number: (replay, replay.revision) for number, replay in self.partitions.items()}
        failed = bool(self._failures)
        self._failures.clear()
        for number in self.partitions.keys() - logs.keys():
            del self.partitions[number]
        for number, log in logs.items():
            replay = self.partitions.get(number)
            if replay is None or replay.log is not log:
                replay = self.partitions[number] = self._replay(log)
            try:
                replay.advance()
            except UnknownPartitionError:
                del self.partitions[number]  # it was deleted meanwhile
            except (StorageError, OSError) as error:
                self._failures[number] = error
        now = {number: (replay, replay.revision) for number, replay in self.partitions.items()}
        if failed or self._failures or now != before:
            self.revision += 1

    @property
    def is_complete(self) -> bool:
        """Whether everything was read that the partitions hold."""
        return not self._failures and all(replay.is_complete for replay in self.partitions.values())

    @property
    def shortcomings(self) -> list[str]:
        """Why what is told may not be all, or not the newest: a sentence each."""
        said = [str(error) for error in self._failures.values()]
        for number, replay in sorted(self.partitions.items()):
            said.extend(map(str, replay.damages))
            if replay.damage_count > len(replay.damages):
                said.append(f"partition {number} has {replay.damage_count - len(replay.damages)} more damaged places")
            if replay.unread:
                said.append(f"{replay.unread} records of partition {number} are of a kind that is not known here")
        return said
