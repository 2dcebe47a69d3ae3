"""How `kafkafs recover` reports an interrupted commit, in lines and as a JSON object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.log_dir import DirectoryName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.store import RecoveredCommit


def commit_lines(recovered: RecoveredCommit, *, is_plan: bool) -> Iterator[str]:
    """Yield its outcome, and a line for each partition in which records are taken back or stay."""
    transaction = recovered.intent.transaction
    name = "the commit" if transaction is None else f"the commit of {transaction.application}, {transaction.version}"
    if recovered.error is not None:
        yield f"{name}: failed: {recovered.error}"
        return
    would = "to be " if is_plan else ""
    yield f"{name}: {would}{'completed' if recovered.withdrawn is None else 'withdrawn'}"
    for each in recovered.withdrawn or ():
        what = f"{DirectoryName(*each.partition)}, offsets {each.first_offset} to {each.end_offset}"
        yield f"  kept     {what}: others' records are there, too" if each.is_kept else f"  cut      {what}"


def commit_object(recovered: RecoveredCommit) -> dict[str, object]:
    """Return the same for machines."""
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
