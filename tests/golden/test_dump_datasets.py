"""Our dump of what real brokers wrote, beside what the real tool printed for the same files."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from kafkafs.content.pieces import DumpPieces
from kafkafs.dump.log_dump import LogDump, Selection
from kafkafs.dump.record_decoders import decoder_of, topic_of
from kafkafs.dump.text import TextForm
from storage.files import Files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkafs.dump.record_decoders import InternalTopic

pytestmark = pytest.mark.golden

SETS = ("kafka-2.2", "kafka-3.9", "kafka-3.9-killed", "kafka-3.9-compaction", "kafka-3.9-recovery")
PRINTED = ("*.log.txt", "*.checkpoint.txt")
GAP = re.compile(r"  \d+ is followed by \d+")
KAFKAFS = [sys.executable, "-c", "from kafkafs.cli import main; main()"]

# What follows the real tool's last words, by the file it died on: one line, and whether more follows.
AFTER_DEATH = {
    "kafka-3.9-killed/d1/t-prealloc-0/00000000000000000000.log": ("the batch length 0 is below", False),
    "before/d1/t-snappy-0/00000000000000001700.log": ("the batch length 0 is below", False),
    "before/d1/t-v1-0/00000000000000001650.log": ("the lz4 frame is cut short", False),
    "before/d2/t-lz4-0/00000000000000001400.log": ("the lz4 frame is cut short", False),
    "before/d1/t-zstd-0/00000000000000000000.log": ("the record's length overruns", True),
}


# In how many sets, or halves of sets, each file is.
INTERNAL_FILES = {
    "__cluster_metadata-0/00000000000000000000.log": 4,
    "__cluster_metadata-0/00000000000000000298-0000000001.checkpoint": 4,
    "__consumer_offsets-0/00000000000000000000.log": 5,
    "__consumer_offsets-2/00000000000000000000.log": 5,
    "__transaction_state-0/00000000000000000000.log": 5,
    "__transaction_state-1/00000000000000000000.log": 5,
}


class Case(NamedTuple):
    log: Path
    real: bytes  # without the line that names the file
    is_death: bool
    topic: InternalTopic | None  # whose decoder the real tool was called with


class Dumped(NamedTuple):
    text: bytes
    gaps: list[str]
    damaged: bool


def cases(root: Path) -> Iterator[Case]:
    for printed in sorted(path for pattern in PRINTED for path in root.rglob(pattern)):
        parts = [part.removesuffix(".dump") for part in printed.relative_to(root).parts]
        log = root.joinpath(*parts).with_suffix("")
        yield Case(log, printed.read_bytes(), Path(f"{printed}.CRASH").exists(), topic_of(str(log)))


def dumped(path: Path) -> Dumped:
    topic = topic_of(str(path))
    form = TextForm(decoder=None if topic is None else decoder_of(topic))
    with Files().open_reading(path) as file:
        dump = LogDump(file, form, Selection())
        text = b"".join(b"\n".join(run) + b"\n" for run in dump)
    first_line, _, rest = text.partition(b"\n")
    assert first_line == f"Dumping {path}".encode()
    return Dumped(rest, list(dump.gaps.report()), dump.damaged)


def assert_goes_on_behind_the_death(case: Case, text: bytes) -> None:
    assert text.startswith(case.real)
    ((reason, goes_on),) = (after for name, after in AFTER_DEATH.items() if str(case.log).endswith(name))
    line, *rest = text[len(case.real) :].decode().splitlines()
    assert line.startswith(f"Damaged: {reason}")
    assert f"({case.log}, position " in line
    assert bool(rest) is goes_on


def test_every_dump_is_the_real_tools(datasets: Callable[[str], Path]) -> None:
    equal, equal_up_to_death = 0, 0
    for name in SETS:
        for case in cases(datasets(name)):
            ours = dumped(case.log)
            if case.is_death:
                assert_goes_on_behind_the_death(case, ours.text)
                equal_up_to_death += 1
            else:
                assert ours.text == case.real, case.log
                equal += 1
            assert ours.damaged == (case.is_death or b"isvalid: false" in case.real or b"\nFound " in case.real)
    print(f"{equal} equal, {equal_up_to_death} equal up to where the real tool died")
    assert (equal, equal_up_to_death) == (418, len(AFTER_DEATH))


def test_every_internal_file_is_dumped_as_by_the_real_tools_decoders(datasets: Callable[[str], Path]) -> None:
    equal: Counter[str] = Counter()
    for name in SETS:
        for case in cases(datasets(name)):
            if case.topic is not None:
                assert dumped(case.log).text == case.real, case.log
                equal[f"{case.log.parent.name}/{case.log.name}"] += 1
    assert equal == INTERNAL_FILES


def test_internal_files_twins_in_a_mount_are_the_same(datasets: Callable[[str], Path]) -> None:
    for case in cases(datasets("kafka-3.9")):
        if case.topic is not None:
            with Files().open_reading(case.log) as file:
                pieces = DumpPieces().of(file, 0, file.size_bytes(), only_sizes=False)
                text = b"".join(bytes(piece.data) for piece in pieces)
            assert text == f"Dumping {case.log.name}\n".encode() + case.real


@pytest.mark.parametrize("name", SETS)
def test_gaps_are_reported_as_by_the_real_tool(datasets: Callable[[str], Path], name: str) -> None:
    root = datasets(name)
    ours = [gaps[1:] for case in cases(root) if (gaps := dumped(case.log).gaps)]
    theirs = list(whole_blocks(root))
    assert len(theirs) > 1
    assert [report for report in theirs if report not in ours] == []


def whole_blocks(root: Path) -> Iterator[list[str]]:
    """The gaps of each log that the real tool reported; how the text begins was lost, and so were some paths."""
    for path in sorted(root.rglob("STDERR.txt")):
        _, *reports = path.read_text().split("Non-consecutive offsets in ")
        for report in reports:
            yield list(takewhile(GAP.fullmatch, report.splitlines()[1:]))


def test_the_command_prints_many_files_one_after_another(datasets: Callable[[str], Path]) -> None:
    chosen = [case for case in cases(datasets("kafka-2.2")) if "/t-upgrade-0/" in str(case.log)]
    expected = b"".join(f"Dumping {case.log}\n".encode() + case.real for case in chosen)
    done = subprocess.run(
        [*KAFKAFS, "dump", *(case.log for case in chosen)],
        capture_output=True,
        check=False,
        env={"PATH": "", "LC_ALL": "POSIX"},
    )
    assert len(chosen) > 0
    assert (done.returncode, done.stdout, done.stderr) == (0, expected, b"")
