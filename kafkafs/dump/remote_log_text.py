"""The events of `__remote_log_metadata` as Kafka's own classes for them print themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from storage.ids import format_id

if TYPE_CHECKING:
    from storage.internal import Message, Release

_SEGMENT_STATES: Final = (
    "COPY_SEGMENT_STARTED",
    "COPY_SEGMENT_FINISHED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_SEGMENT_FINISHED",
)
_PARTITION_STATES: Final = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")


def event_text(message: Message, release: Release) -> str:
    """Return the event as the release prints it; raises `ValueError` with Kafka's words for an impossible one."""
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
