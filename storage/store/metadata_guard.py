"""The cluster's metadata log is not cut unasked: what a controller wrote there, it acknowledged.

A broker that starts on a metadata log without its last records takes the topics that are made in them for unknown, and
renames each of their partitions to `-stray`. So recovery cuts by itself only what was never acknowledged: the first
part of a batch at the end of the file, or zeros.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.errors import MetadataLossError
from storage.files import OverlayFiles
from storage.log.recover.report import Repair
from storage.log_dir.topic_names import CLUSTER_METADATA
from storage.record.layout import LOG_OVERHEAD_BYTES
from storage.segment.index.zero_tail import is_zero
from storage.segment.names import parse_name
from storage.segment.sound_batch_search import find_sound_batch
from storage.store.opening import recover_requested

if TYPE_CHECKING:
    from storage.files import Files
    from storage.log.recover.report import RecoveryReport, Step
    from storage.topics.open_logs import LogRequest

_OFFSET_BYTES = 8


def recover_guarded(request: LogRequest, files: Files, *, cuts_metadata: bool) -> RecoveryReport:
    """Recover a log in these files; raises `MetadataLossError`, having done nothing, where that needs `cuts_metadata`.

    Only the cluster's metadata log does.
    """
    if request.topic == CLUSTER_METADATA and not cuts_metadata:
        plan = recover_requested(request, OverlayFiles(files))
        for step in plan.steps:
            if step.lost_bytes and not (step.repair is Repair.CUT and _was_never_acknowledged(request, step)):
                raise MetadataLossError(
                    f"{plan.lost_bytes} bytes of the cluster's metadata log would be cut, {step.reason}; a broker that "
                    "starts without them renames the partitions of all topics made in them to -stray; copy the "
                    "directory from another controller, or cut it with --cut-metadata",
                    path=request.directory.path_of(step.name),
                    position=step.position,
                    offset=step.offset,
                )
    return recover_requested(request, files)


def _was_never_acknowledged(request: LogRequest, step: Step) -> bool:
    """Whether what would be cut is the beginning of a batch, with nothing after it, or unused space."""
    name = parse_name(step.name)
    assert name is not None
    assert step.position is not None
    assert step.offset is not None
    start = step.position
    with request.directory.open_reading(step.name) as file:
        end = file.size_bytes()
        if is_zero(file, start, end):
            return True
        header = file.read_at(start, LOG_OVERHEAD_BYTES)
        length = int.from_bytes(header[_OFFSET_BYTES:], "big", signed=True)
        is_incomplete = len(header) < LOG_OVERHEAD_BYTES or start + LOG_OVERHEAD_BYTES + length > end
        found = find_sound_batch(file, start, end, base_offset=name.offset, next_offset=step.offset)
    return is_incomplete and found is None
