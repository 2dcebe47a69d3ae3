"""The decoders of topics whose values tell their type: the metadata log and its snapshots, and remote log metadata.

The text is that of the real tool's parsers. Where that prints what Java says of a value that it cannot read, the reason
here is ours.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from kafkafs.dump.decoded import is_readable_as, message_json, side
from storage.ids import format_id
from storage.internal import Message, Raw, metadata, remote_logs

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage.internal import Definition, Outcome, Release
    from storage.record import Record

_PREVIEW_FRAME: Final = (
    "Could not deserialize metadata record with frame version 0. Note that upgrades from the preview release of KRaft"
    " in 2.8 to newer versions are not supported."
)
_VARINT_BITS_MAX: Final = 28
_ONE_BYTE: Final = 0x80
_WORD: Final = re.compile(r"(?<!^)(?=[A-Z])")
_SEGMENT_STATES: Final = (
    "COPY_SEGMENT_STARTED",
    "COPY_SEGMENT_FINISHED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_SEGMENT_FINISHED",
)
_PARTITION_STATES: Final = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")


class MetadataDecoder:
    """The decoder of `__cluster_metadata`.

    With `is_newer_shown`, the text of a record of a type or a version that only 4 knows is that of 4's tool.
    """

    def __init__(self, release: Release, *, is_newer_shown: bool = False) -> None:
        self._release: Release = release
        self._newer = MetadataDecoder("4") if is_newer_shown else None

    def text(self, record: Record) -> str:
        """Return the text after the record's header keys."""
        message = metadata.decode(record.value or b"")
        if self._newer is not None and isinstance(message, Message) and _is_newer(message):
            return self._newer.text(record)
        failure = _failure(message, metadata.definition, self._release)
        if failure is not None or isinstance(message, Raw):
            return f" payload: Error at {record.offset}, skipping. {failure}"
        data = message_json(message, self._stated(message))
        return f' payload: {{"type":"{_type_name(message.name)}","version":{message.version},"data":{data}}}'

    def members(self, record: Record) -> str:
        """Return the key, which brokers leave out, and the value as objects."""
        return _members(record, None if record.value is None else metadata.decode(record.value))

    def _stated(self, message: Message) -> dict[str, Any]:
        definition = message.definition
        known = definition.versions_39 if self._release == "3.9" else definition.versions
        return definition.schema(min(message.version, known[-1]), self._release).stated(message.fields)


class RemoteLogDecoder:
    """The decoder of `__remote_log_metadata`, whose records are the same in both releases."""

    def __init__(self, release: Release) -> None:
        self._release = release

    def text(self, record: Record) -> str:
        """Return the text after the record's header keys."""
        failed = f" payload: Error at offset {record.offset}, skipping. "
        if record.value is None:
            return f"{failed}The value is missing."
        message = remote_logs.decode(record.value)
        failure = _failure(message, remote_logs.definition, self._release)
        if failure is not None or isinstance(message, Raw):
            return f"{failed}{failure}"
        try:
            return f" payload: {_event_text(message, self._release)}"
        except ValueError as error:
            return f"{failed}{error}"

    def members(self, record: Record) -> str:
        """Return the key, which brokers leave out, and the value as objects."""
        return _members(record, None if record.value is None else remote_logs.decode(record.value))


def _is_newer(message: Message) -> bool:
    """Return True if 4 knows the message's version and 3.9 does not."""
    definition = message.definition
    return message.version in definition.versions and message.version not in definition.versions_39


def _failure(outcome: Outcome, definition_of: Callable[[int], Definition | None], release: Release) -> str | None:
    """Return why the release cannot read the value, in the words of its tool; None if it can."""
    if outcome.version is None:
        assert isinstance(outcome, Raw)
        return _unframed(outcome.data)
    record_type = outcome.type if isinstance(outcome, Raw) else outcome.definition.api_key
    definition = None if record_type is None else definition_of(record_type)
    known = range(0) if definition is None else definition.versions_39 if release == "3.9" else definition.versions
    if not known:
        return f"org.apache.kafka.common.errors.UnsupportedVersionException: Unknown metadata id {record_type}"
    if isinstance(outcome, Raw) or not is_readable_as(outcome, known):
        return f"Failed to deserialize record with type {record_type}"
    return f"Found {len(outcome.rest)} byte(s) of garbage after {record_type}" if outcome.rest else None


def _unframed(data: bytes) -> str:
    """Return what is wrong with a value whose frame, type or version is cut short, or whose frame is unknown."""
    position = 0
    for part in ("frame version", "type", "version"):
        number, shift = 0, 0
        while True:
            if position == len(data) or shift > _VARINT_BITS_MAX:
                return f"Error while reading {part}"
            byte = data[position]
            number |= (byte & 0x7F) << shift
            position, shift = position + 1, shift + 7
            if byte < _ONE_BYTE:
                break
        if part == "frame version" and number == 0:
            return _PREVIEW_FRAME
        if part == "frame version" and number != 1:
            return (
                f"Could not deserialize metadata record due to unknown frame version {number}"
                "(only frame version 1 is supported)"
            )
    raise AssertionError(data)


def _members(record: Record, value: Outcome | None) -> str:
    key = None if record.key is None else Raw(record.key, None, None, "keys have no meaning in this topic")
    return f'"key":{side(key)},"value":{side(value)}'


@cache
def _type_name(name: str) -> str:
    return _WORD.sub("_", name).upper()


def _event_text(message: Message, release: Release) -> str:
    """Return an event of remote logs as Kafka's class for it prints itself; raises `ValueError` in Kafka's words."""
    fields = message.fields
    match message.name:
        case "RemoteLogSegmentMetadataRecord":
            _check_segment(fields)
            state = _segment_state(fields)
            return (
                f"RemoteLogSegmentMetadata{{remoteLogSegmentId={_segment(fields)}, "
                f"startOffset={fields['startOffset']}, endOffset={fields['endOffset']}, brokerId={fields['brokerId']}, "
                f"maxTimestampMs={fields['maxTimestampMs']}, eventTimestampMs={fields['eventTimestampMs']}, "
                f"{_contents(fields)}, state={state}{_index_emptiness(fields, release)}}}"
            )
        case "RemoteLogSegmentMetadataUpdateRecord":
            return (
                f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={_segment(fields)}, "
                f"customMetadata={_custom(fields)}, state={_segment_state(fields)}, "
                f"eventTimestampMs={fields['eventTimestampMs']}, brokerId={fields['brokerId']}}}"
            )
        case "RemotePartitionDeleteMetadataRecord":
            return (
                f"RemotePartitionDeleteMetadata{{topicPartition={_partition(fields['topicIdPartition'])}, "
                f"state={_partition_state(fields)}, "
                f"eventTimestampMs={fields['eventTimestampMs']}, brokerId={fields['brokerId']}}}"
            )
        case _:
            state = _segment_state(fields)
            _check_epochs(fields)
            return (
                f"RemoteLogSegmentMetadataSnapshot{{segmentId={format_id(fields['segmentId'])}, "
                f"startOffset={fields['startOffset']}, endOffset={fields['endOffset']}, "
                f"maxTimestampMs={fields['maxTimestampMs']}, {_contents(fields)}, "
                f"state={state}{_index_emptiness(fields, release)}}}"
            )


def _check_segment(fields: dict[str, Any]) -> None:
    start, end = fields["startOffset"], fields["endOffset"]
    if start < 0:
        raise ValueError(f"Unexpected start offset = {start}. StartOffset for a remote segment cannot be negative")
    if end < start:
        raise ValueError(
            f"Unexpected end offset = {end}. EndOffset for a remote segment cannot be less than startOffset = {start}"
        )
    _check_epochs(fields)


def _check_epochs(fields: dict[str, Any]) -> None:
    if not fields["segmentLeaderEpochs"]:
        raise ValueError("segmentLeaderEpochs can not be null or empty")


def _segment(fields: dict[str, Any]) -> str:
    segment = fields["remoteLogSegmentId"]
    partition = _partition(segment["topicIdPartition"])
    return f"RemoteLogSegmentId{{topicIdPartition={partition}, id={format_id(segment['id'])}}}"


def _partition(partition: dict[str, Any]) -> str:
    return f"{format_id(partition['id'])}:{partition['name']}-{partition['partition']}"


def _contents(fields: dict[str, Any]) -> str:
    starts = {each["leaderEpoch"]: each["offset"] for each in fields["segmentLeaderEpochs"]}
    epochs = ", ".join(f"{epoch}={starts[epoch]}" for epoch in sorted(starts))
    return (
        f"segmentLeaderEpochs={{{epochs}}}, segmentSizeInBytes={fields['segmentSizeInBytes']}, "
        f"customMetadata={_custom(fields)}"
    )


def _custom(fields: dict[str, Any]) -> str:
    data = fields["customMetadata"]
    return "Optional.empty" if data is None else f"Optional[CustomMetadata{{{len(data)} bytes}}]"


def _index_emptiness(fields: dict[str, Any], release: Release) -> str:
    return "" if release == "3.9" else f", txnIdxEmpty={str(fields['txnIndexEmpty']).lower()}"


def _segment_state(fields: dict[str, Any]) -> str:
    number = fields["remoteLogSegmentState"]
    if not 0 <= number < len(_SEGMENT_STATES):
        raise ValueError("state can not be null")
    return _SEGMENT_STATES[number]


def _partition_state(fields: dict[str, Any]) -> str:
    number = fields["remotePartitionDeleteState"]
    if not 0 <= number < len(_PARTITION_STATES):
        raise ValueError("null")  # which is all that Kafka says
    return _PARTITION_STATES[number]
