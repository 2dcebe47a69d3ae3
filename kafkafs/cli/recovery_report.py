"""How `kafkafs recover` reports an outcome, in lines and as JSON: of a partition, a log directory or a commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkafs.cli.failures import sentence
from storage.files import as_uri
from storage.log_dir import DirectoryName
from storage.offset_text import offsets_text
from storage.store import Recovered, RecoveredCommit, RecoveredLogDir

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeAlias

    from storage.log import Step

    Outcome: TypeAlias = Recovered | RecoveredCommit | RecoveredLogDir


def outcome_lines(outcome: Outcome, *, is_plan: bool) -> Iterator[str]:
    """Return the lines for people: each file that changes, and why."""
    match outcome:
        case RecoveredCommit():
            return _commit_lines(outcome, is_plan=is_plan)
        case RecoveredLogDir():
            return _log_dir_lines(outcome)
        case Recovered():
            return _partition_lines(outcome)


def outcome_object(outcome: Outcome) -> dict[str, object]:
    """Return the object for machines."""
    match outcome:
        case RecoveredCommit():
            return _commit_object(outcome)
        case RecoveredLogDir():
            return _log_dir_object(outcome)
        case Recovered():
            return _partition_object(outcome)


def _partition_lines(recovered: Recovered) -> Iterator[str]:
    name, report = recovered.directory, recovered.report
    if report is None:
        yield f"{name}: failed: {_reason(recovered)}"
        if recovered.done:
            yield "  before that, these steps were taken, and they stay:"
            yield from map(_step_line, recovered.done)
        return
    is_short = report.end_offset < recovered.high_watermark
    if report.steps or is_short:
        yield f"{name}: {offsets_text(report.start_offset, report.end_offset)}"
    yield from map(_step_line, report.steps)
    if report.lost_from_offset is not None:
        yield f"  lost     whole batches, too, from offset {report.lost_from_offset} on"
    if is_short:
        missing = offsets_text(report.end_offset, recovered.high_watermark)
        yield f"  missing  {missing}, below the high watermark; {_other_copies(recovered.replicas)}"


def _other_copies(replicas: Sequence[int]) -> str:
    """Return where else the records below the high watermark are."""
    if not replicas:
        return "only another replica, if there is one, still has them"
    if len(replicas) == 1:
        return "this is the only replica"
    return f"of the replicas on brokers {', '.join(map(str, sorted(replicas)))}, another one that was in sync has them"


def _reason(recovered: Recovered) -> str:
    """Return why a partition was not recovered."""
    assert recovered.error is not None
    return sentence(recovered.error)


def _log_dir_lines(log_dir: RecoveredLogDir) -> Iterator[str]:
    """Yield the changes of a log directory's own files, and why its logs were not read or are not marked."""
    if log_dir.bare is not None:
        yield f"{as_uri(str(log_dir.path))}: {log_dir.bare.reason}"
        yield "  nothing is written to it"
        return
    believed = log_dir.trusted_segments
    if log_dir.steps or log_dir.trusts_marker or believed or not log_dir.is_closed:
        yield f"{as_uri(str(log_dir.path))}:"
    if log_dir.trusts_marker:
        yield (
            "  the clean-shutdown marker says that all logs here were closed properly, so only the ends of the topics' "
            "logs were read; --ignore-clean-shutdown reads all of them"
        )
    if believed:
        segments = "1 segment was" if believed == 1 else f"{believed} segments were"
        yield (
            f"  {segments} not read, because the recovery points of the logs say that they are on disk; "
            "--ignore-clean-shutdown reads all of them"
        )
    yield from map(_step_line, log_dir.steps)
    if not log_dir.is_closed:
        yield "  no clean-shutdown marker is written: not every log here is recovered"


def _log_dir_object(log_dir: RecoveredLogDir) -> dict[str, object]:
    if log_dir.bare is not None:
        missing = [str(DirectoryName(*each)) for each in log_dir.bare.partitions]
        return {"logDir": str(log_dir.path), "isBare": True, "reason": log_dir.bare.reason, "missing": missing}
    return {
        "logDir": str(log_dir.path),
        "trustsMarker": log_dir.trusts_marker,
        "believedSegments": log_dir.trusted_segments,
        "closed": log_dir.is_closed,
        "steps": [{"repair": step.repair.value, "name": step.name, "reason": step.reason} for step in log_dir.steps],
    }


def _step_line(step: Step) -> str:
    return f"  {step.repair.value:8} {step.name}{_loss(step)}: {step.reason}"


def _loss(step: Step) -> str:
    return f", {step.lost_bytes} bytes from position {step.position}, offset {step.offset}" if step.lost_bytes else ""


def _partition_object(recovered: Recovered) -> dict[str, object]:
    found: dict[str, object] = {
        "topic": recovered.topic,
        "partition": recovered.partition,
        "path": str(recovered.directory),
    }
    report = recovered.report
    if report is None:
        return {**found, "error": _reason(recovered), "steps": list(map(_step_object, recovered.done))}
    return {
        **found,
        "startOffset": report.start_offset,
        "endOffset": report.end_offset,
        "highWatermark": recovered.high_watermark,
        "replicas": list(recovered.replicas) or None,
        "lostBytes": report.lost_bytes,
        "believedSegments": report.trusted_segments,
        "scannedSegments": report.scanned_segments,
        "scannedBytes": report.scanned_bytes,
        "steps": list(map(_step_object, report.steps)),
    }


def _step_object(step: Step) -> dict[str, object]:
    return {
        "repair": step.repair.value,
        "name": step.name,
        "reason": step.reason,
        "lostBytes": step.lost_bytes,
        "position": step.position,
        "offset": step.offset,
        "nextGoodOffset": step.next_good_offset,
    }


def _commit_lines(recovered: RecoveredCommit, *, is_plan: bool) -> Iterator[str]:
    """Yield the outcome of an interrupted commit, and each partition in which records are taken back or kept."""
    transaction = recovered.intent.transaction
    name = "the commit" if transaction is None else f"the commit of {transaction.application}, {transaction.version}"
    if recovered.error is not None:
        yield f"{name}: failed: {recovered.error}"
        return
    would = "to be " if is_plan else ""
    yield f"{name}: {would}{'completed' if recovered.withdrawn is None else 'withdrawn'}"
    for each in recovered.withdrawn or ():
        what = f"{DirectoryName(*each.partition)}, {offsets_text(each.first_offset, each.end_offset)}"
        yield f"  kept     {what}: others' records are there, too" if each.is_kept else f"  cut      {what}"


def _commit_object(recovered: RecoveredCommit) -> dict[str, object]:
    transaction = recovered.intent.transaction
    found: dict[str, object] = {
        "application": None if transaction is None else transaction.application,
        "version": None if transaction is None else transaction.version,
        "staged": list(recovered.intent.staged),
    }
    if recovered.error is not None:
        return {**found, "result": "failed", "error": str(recovered.error)}
    if recovered.withdrawn is None:
        return {**found, "result": "completed"}
    partitions = [
        {
            "topic": each.partition[0],
            "partition": each.partition[1],
            "startOffset": each.first_offset,
            "endOffset": each.end_offset,
            "kept": each.is_kept,
        }
        for each in recovered.withdrawn
    ]
    return {**found, "result": "withdrawn", "partitions": partitions}
