"""Our dump of the indexes and producer snapshots of real brokers, beside what the real tool printed for them."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from click.testing import CliRunner

from kafkafs.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from click.testing import Result

pytestmark = pytest.mark.interop

SETS = ("kafka-2.2", "kafka-3.9", "kafka-3.9-killed", "kafka-3.9-compaction", "kafka-3.9-recovery")
PRINTED = re.compile(r".*\.(?:index|timeindex|txnindex|snapshot)(\.sanity)?\.txt")
SCRIPT = Path(__file__).parents[2] / "scripts" / "kafka"
SANITY = "--index-sanity-check"
MODES: dict[str, list[str]] = {"entries": [], "sanity": [SANITY], "comparison": ["--verify-index-only"]}
FILES_MAX = 500  # their names are one argument of the real tool's

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


class Case(NamedTuple):
    path: Path
    options: list[str]
    real: str  # without the line that names the file
    is_death: bool


def cases(root: Path) -> Iterator[Case]:
    for printed in sorted(root.rglob("*.txt")):
        name = PRINTED.fullmatch(printed.name)
        if name is None:
            continue
        directories = [part.removesuffix(".dump") for part in printed.parent.relative_to(root).parts]
        path = root.joinpath(*directories, printed.name.removesuffix(".txt").removesuffix(".sanity"))
        is_death = Path(f"{printed}.CRASH").exists()
        yield Case(path, [SANITY] if name[1] else [], printed.read_text(), is_death)


def dump(*arguments: object) -> Result:
    result = CliRunner().invoke(main, ["dump", *map(str, arguments)])
    assert "Traceback" not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


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


def blocks(report: str) -> list[list[str]]:
    """Each file's mismatches of one kind, without the path."""
    found: list[list[str]] = []
    for line in report.splitlines():
        if not line.startswith((" ", "Indexed offset")):
            found.append([])
        found[-1].append(line.partition(":/")[0])
    return sorted(found)


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


def altered(root: Path, directory: Path) -> Iterator[Path]:
    """Copies of a segment whose indexes are wrong in every way that does not kill the real tool."""
    stem = root / "kafka-3.9" / "d1" / "t-none-0" / "00000000000000000000"
    offsets, times = (stem.with_suffix(suffix).read_bytes() for suffix in (".index", ".timeindex"))
    first, second = times[:12], times[12:24]
    wrong = {
        "offsets": (struct.pack(">ii", 98, 0) + offsets[8:], times),
        "order": (offsets, second + first + times[24:]),
        "equal": (offsets, first + first + second),
        "time": (offsets, struct.pack(">q", 5) + times[8:]),
        "beyond": (offsets, times + struct.pack(">qi", 2**62, 2**30)),
        "no offsets": (b"", times),
        "zeros": (offsets[:16] + bytes(800) + offsets[16:], times[:24] + bytes(1200) + times[24:]),
        "nothing but zeros": (bytes(8000), bytes(12000)),
        "nothing": (b"", b""),
    }
    for name, (index, time_index) in wrong.items():
        target = directory / name / stem.name
        target.parent.mkdir()
        target.with_suffix(".log").write_bytes(stem.with_suffix(".log").read_bytes())
        target.with_suffix(".index").write_bytes(index)
        target.with_suffix(".timeindex").write_bytes(time_index)
        yield from (target.with_suffix(suffix) for suffix in (".index", ".timeindex"))


def real_dump(files: Sequence[Path], options: Sequence[str]) -> tuple[str, str]:
    command = [sys.executable, SCRIPT, "dump", *files, "--", *options]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.usefixtures("real_kafka")
def test_a_real_tool_prints_and_reports_the_same(datasets: Callable[[str], Path], tmp_path: Path, mode: str) -> None:
    options = MODES[mode]
    files = [] if mode == "sanity" else list(altered(datasets("kafka-3.9"), tmp_path))
    for name in ("kafka-2.2", "kafka-3.9-killed"):
        found = [case for case in cases(datasets(name)) if case.options == ([SANITY] if mode == "sanity" else [])]
        files += [case.path for case in found if not case.is_death]
    for start in range(0, len(files), FILES_MAX):
        some = files[start : start + FILES_MAX]
        output, errors = real_dump(some, options)
        result = dump(*options, *some)
        assert (result.stdout, result.exit_code) == (output, 0)
        assert blocks(result.stderr) == blocks(errors)
