"""Logs in memory to be damaged, and what a look through their directory finds then."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from memory_logs import DIRECTORY, NOW_MS, SETTINGS, LogOnMemory, sent

from storage.record.compression import Codec
from storage.record.encoding import BatchForm
from storage.verify.context import PartitionExpectation
from storage.verify.finding import Severity
from storage.verify.partition import verify_partition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from storage.files import Files
    from storage.verify.finding import Finding, FindingKind

_FIRST_BATCHES = 60
_BATCHES = 100


def append(log: LogOnMemory, number: int, rng: random.Random) -> None:
    """Append the batch of that number: three records in one codec after the other, of the first or second epoch."""
    rows = [(NOW_MS + 10 * number + at, rng.randbytes(40)) for at in range(3)]
    epoch = 1 if number < _FIRST_BATCHES else 2
    log.log.append_as_leader(sent(rows, BatchForm(codec=list(Codec)[number % 5])), leader_epoch=epoch)


def filled_log(settings: Mapping[str, str] = SETTINGS) -> LogOnMemory:
    """A log of several segments, still open, with producers, an aborted transaction, an open one, and two epochs."""
    log, rng = LogOnMemory(settings), random.Random(7)
    for number in range(_FIRST_BATCHES):
        append(log, number, rng)
    for sequence in range(4):
        log.produce(b"idempotent", sequence)
        log.produce(b"transactional", sequence, producer_id=9, transactional=True)
    log.end_transaction(9, committed=False)
    log.produce(b"open", 0, producer_id=11, transactional=True)
    for number in range(_FIRST_BATCHES, _BATCHES):
        append(log, number, rng)
    return log


def closed_log() -> LogOnMemory:
    """Return the same, closed."""
    log = filled_log()
    log.log.close()
    return log


def bases(log: LogOnMemory) -> list[str]:
    """The segments as their files' names have them."""
    return sorted(name.removesuffix(".log") for name in log.contents() if name.endswith(".log"))


def replace(log: LogOnMemory, name: str, data: bytes) -> None:
    """Give a file of the log these contents."""
    with log.files.open_writing(f"{DIRECTORY}/{name}", create=True) as file:
        file.truncate(0)
        file.write_at(0, [data])


def findings(
    files: Files,
    *,
    is_clean: bool = True,
    has_topic_id: bool = False,
    is_compacted: bool = False,
    reached: Mapping[str, int] | None = None,
) -> list[Finding]:
    """Return the findings in `DIRECTORY`."""
    expected = PartitionExpectation(
        directory=files.directory(DIRECTORY),
        is_clean=is_clean,
        has_topic_id=has_topic_id,
        is_compacted=is_compacted,
        reached=reached or {},
    )
    return list(verify_partition(expected, advance=lambda _: None).findings)


def damages(
    log: LogOnMemory, *, is_clean: bool = True, has_topic_id: bool = False, reached: Mapping[str, int] | None = None
) -> set[tuple[FindingKind, str]]:
    """The kinds of damage, and the files they are in."""
    found = findings(log.files, is_clean=is_clean, has_topic_id=has_topic_id, reached=reached)
    return {(finding.kind, finding.path) for finding in found if finding.severity is Severity.DAMAGE}
