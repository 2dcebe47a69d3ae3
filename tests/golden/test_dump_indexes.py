"""Our dump of the indexes and producer snapshots of real brokers, beside what the real tool printed for them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from index_dumps import Case, blocks, cases, dump

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

pytestmark = pytest.mark.golden

SETS = ("kafka-2.2", "kafka-3.9", "kafka-3.9-killed", "kafka-3.9-compaction", "kafka-3.9-recovery")

# What follows the real tool's last words, by the file it died on.
NO_ENTRIES = "has no entries yet: its slots are not used."
NOT_TRIMMED = "the time index was not trimmed: "
AFTER_DEATH = {
    "before/d1/t-delrec-0/00000000000000000750.index": "the file has 107 bytes, which is not a multiple of 8 ",
    "before/d1/t-idem-0/00000000000000000000.index": "the log of 0 bytes has no position 2320 ",
    "before/d1/t-idem-0/00000000000000000000.timeindex": "the log of 0 bytes has no position 2320 ",
    "before/d1/t-none-0/00000000000000001450.index": "the log of 52413 bytes has no whole batch at its position 51981 ",
    "before/d1/t-v0-0/00000000000000001600.index": "the log of 14683 bytes has no whole batch at its position 12922 ",
    "before/d1/t-v1-0/00000000000000001650.timeindex": "the lz4 frame is cut short",
    "before/d1/t-zstd-0/00000000000000000000.timeindex": "the record's length overruns",
    "before/d2/t-lz4-0/00000000000000001400.timeindex": "the lz4 frame is cut short",
    "before/d2/t-none-1/00000000000000000000.index": "the log of 26815 bytes has no position -1 ",
    "before/d2/t-none-1/00000000000000000000.timeindex": "the log of 26815 bytes has no position -1 ",
}
GOES_ON = {"before/d1/t-idem-0", "before/d1/t-zstd-0", "before/d2/t-none-1"}  # with entries to which nothing happened


def assert_goes_on_behind_the_death(case: Case, result: Result) -> None:
    heading = f"Dumping {case.path}\n{case.real}"
    assert result.stdout.startswith(heading)
    line, *rest = result.stdout[len(heading) :].splitlines()
    if "/kafka-3.9-killed/" in str(case.path):
        # An index that is not trimmed yet is no damage, but does not pass Kafka's check.
        expected = f"Damaged: {NOT_TRIMMED}" if case.options else f"{case.path} {NO_ENTRIES}"
        assert (line[: len(expected)], rest, result.exit_code) == (expected, [], 1 if case.options else 0)
        return
    ((reason, name),) = ((reason, name) for name, reason in AFTER_DEATH.items() if str(case.path).endswith(name))
    assert line.startswith(f"Damaged: {reason}")
    assert "/".join(case.path.parts[-2:-1]) in line
    assert result.exit_code == 1
    if not case.options:
        assert rest[0].startswith(("offset: ", "timestamp: "))
        assert (len(rest) > 1) is name.startswith(tuple(GOES_ON))


def test_every_dump_is_the_real_tools(datasets: Callable[[str], Path]) -> None:
    equal = equal_up_to_death = total = 0
    for name in SETS:
        for case in cases(datasets(name)):
            total += 1
            result = dump(*case.options, case.path)
            if case.is_death:
                assert_goes_on_behind_the_death(case, result)
                equal_up_to_death += 1
                continue
            # Most paths were lost from what the real tool printed.
            real = re.sub(r"(?m)^/var/lib/kafka\S*", lambda _, path=case.path: str(path), case.real)
            assert result.stdout == f"Dumping {case.path}\n{real}", case.path
            is_odd = case.path.match("before/d1/t-delrec-0/00000000000000000750.index")
            assert result.exit_code == (1 if is_odd else 0), case.path
            equal += 1
    print(f"{equal + equal_up_to_death} of {total}: {equal} equal, {equal_up_to_death} up to where the real tool died")
    assert (equal, equal_up_to_death, total) == (2015, 49, 2064)


@pytest.mark.parametrize("name", ["kafka-2.2", "kafka-3.9-killed", "kafka-3.9-recovery"])
def test_mismatches_are_reported_as_by_the_real_tool(datasets: Callable[[str], Path], name: str) -> None:
    root = datasets(name)
    ours = blocks("".join(dump(case.path).stderr for case in cases(root) if not case.options))
    theirs = [
        block
        for errors in root.rglob("STDERR.txt")
        for block in blocks(errors.read_text().partition("\n##  rc=0\n")[2].rstrip("\n"))
    ]
    assert theirs
    # All of 2.2's were kept, and of the others those of the last files.
    assert ours == theirs if name == "kafka-2.2" else [block for block in theirs if block not in ours] == []
