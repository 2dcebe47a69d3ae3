"""How far each partition is exported into a directory, and in which form; and whether a log continues its last export.

A log is recognized by what a broker goes by: its offsets, the topic's id and the leader epochs. `export_target` keeps
the file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from kafkafs.spark.errors import DataLossError, JobError
from storage.offset_text import offsets_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from storage.log_dir import Partition

_VERSION: Final = 1
_ELSEWHERE: Final = "export it to another directory"


class ExportForm(NamedTuple):
    """The form of all files of an export."""

    headers: bool
    values: str
    isolation: str
    table: str | None = None


@dataclass(frozen=True, slots=True)
class Watermark:
    """The exported offsets of a partition, up to the end, which is excluded.

    The topic's id and the leader epoch of the last record are those of that time, None if unknown.
    """

    start_offset: int
    end_offset: int
    topic_id: str | None = None
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class LogNow:
    """A log as it is now.

    `epoch_end_offset` is where the watermark's leader epoch ends in the log, below all offsets if it is later than the
    log's epochs, and None if the log has no epochs.
    """

    start_offset: int
    end_offset: int
    topic_id: str | None = None
    epoch_end_offset: int | None = None


@dataclass(frozen=True, slots=True)
class Exported:
    """The contents of the file; empty before the first export."""

    form: ExportForm | None = None
    watermarks: Mapping[Partition, Watermark] = field(default_factory=lambda: MappingProxyType({}))

    def text(self) -> str:
        """Return the file's text."""
        marks = [
            {
                "topic": topic,
                "partition": partition,
                "startOffset": mark.start_offset,
                "endOffset": mark.end_offset,
                "topicId": mark.topic_id,
                "leaderEpoch": mark.leader_epoch,
            }
            for (topic, partition), mark in sorted(self.watermarks.items())
        ]
        form = None if self.form is None else self.form._asdict()
        return json.dumps({"version": _VERSION, "form": form, "watermarks": marks}, indent=1) + "\n"

    @classmethod
    def parse(cls, text: str, path: str) -> Self:
        """Parse a file's text; raises `JobError` if kafkafs did not write it."""
        try:
            said = json.loads(text)
            if said["version"] != _VERSION:
                raise JobError(f"{path} is of version {said['version']}, known is {_VERSION}: a newer kafkafs wrote it")
            marks = {
                (str(each["topic"]), int(each["partition"])): Watermark(
                    int(each["startOffset"]), int(each["endOffset"]), each["topicId"], each["leaderEpoch"]
                )
                for each in said["watermarks"]
            }
            form = None if said["form"] is None else ExportForm(**said["form"])
        except (ValueError, TypeError, LookupError) as error:
            raise JobError(f"{path} is not what kafkafs writes ({error}): {_ELSEWHERE}") from None
        return cls(form, MappingProxyType(marks))

    def check_form(self, form: ExportForm) -> None:
        """Raise `JobError` if the directory has files of another form."""
        if self.form is None or self.form == form:
            return
        had, wanted = (
            ", ".join(f"{name}={_shown(value)}" for name, value in each._asdict().items()) for each in (self.form, form)
        )
        raise JobError(f"what is there was exported with {had}, and now it would be {wanted}: {_ELSEWHERE}")


def check_continues(partition: Partition, mark: Watermark, log: LogNow) -> None:
    """Raise `JobError` if this is not the log that was exported."""
    name = "{}-{}".format(*partition)
    if None not in (mark.topic_id, log.topic_id) and mark.topic_id != log.topic_id:
        raise JobError(f"{name} is of another topic than the one of that name that was exported: {_ELSEWHERE}")
    if log.end_offset < mark.end_offset:
        raise JobError(
            f"{name} was exported up to offset {mark.end_offset - 1}, and its next offset is {log.end_offset}, so it "
            f"was truncated or recreated: {_ELSEWHERE}"
        )
    if log.epoch_end_offset is not None and log.epoch_end_offset < mark.end_offset:
        raise JobError(
            f"{name} was exported up to offset {mark.end_offset - 1}, and its end was truncated and written again "
            f"since: {_ELSEWHERE}"
        )


def check_keeps(partition: Partition, mark: Watermark, log: LogNow) -> None:
    """Raise `JobError` if a full export would remove records that the log no longer has."""
    if mark.start_offset < min(log.start_offset, mark.end_offset):
        raise JobError(
            "{}-{} is exported from offset {} on, and begins with {} by now, so that records would be lost: export "
            "what is new with --incremental, or all of it to another directory".format(
                *partition, mark.start_offset, log.start_offset
            )
        )


def check_reaches(partition: Partition, mark: Watermark, log: LogNow) -> None:
    """Raise `DataLossError` if the log has lost records that are not exported."""
    if log.start_offset > mark.end_offset:
        topic, number = partition
        raise DataLossError(
            f"records of {topic}-{number} are gone, and were not exported before: "
            f"{offsets_text(mark.end_offset, log.start_offset)}; --accept-data-loss goes on without them"
        )


def _shown(value: object) -> str:
    return str(value).lower()
