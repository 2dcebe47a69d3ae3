"""`kafkafs find` finds what real tools find in what real brokers wrote, and no more."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kafkafs.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from click.testing import Result

DUMPED = re.compile(
    rb"^\| offset: (\d+) .*keySize: (-?\d+) valueSize: (-?\d+) .*? key: (.*?)(?: payload: |$)", re.MULTILINE
)
PLACE = "%t %p %o\\n"


def run(command: str, *arguments: object) -> Result:
    result = CliRunner().invoke(main, [command, *map(str, arguments)], prog_name="kafkafs")
    assert "Traceback" not in result.output
    return result


def found(*arguments: object) -> list[dict[str, Any]]:
    result = run("find", *arguments)
    assert result.exit_code == (0 if result.stdout else 1), result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def offsets(*arguments: object) -> list[int]:
    return [row["offset"] for row in found(*arguments)]


def dumped(data_set: Path) -> Iterator[tuple[str, list[tuple[int, bytes | None]]]]:
    """The offsets and the keys in the segments of each partition, as the real tool printed them."""
    for directory in sorted(data_set.with_suffix(data_set.suffix + ".dump").glob("d?/t-*")):
        rows = [
            (int(offset), None if int(size) < 0 else key)
            for text in sorted(directory.glob("*.log.txt"))
            for offset, size, _, key in DUMPED.findall(text.read_bytes())
        ]
        if rows:
            yield directory.name, rows


@pytest.mark.golden
@pytest.mark.parametrize("name", ["kafka-2.2", "kafka-3.9"])
def test_keys_are_found_where_the_real_tool_shows_them(datasets: Callable[[str], Path], name: str) -> None:
    data_set = datasets(name) / name
    store = ",".join(str(data_set / log_dir) for log_dir in ("d1", "d2"))
    looked_for = 0
    for directory, rows in dumped(data_set):
        topic, _, partition = directory.rpartition("-")
        info = run("cat", store, f"{topic}/{partition}/info").stdout
        start = int(re.search(r"^start.offset=(\d+)", info, re.MULTILINE)[1])  # type: ignore[index]
        keys = Counter(key for _, key in rows if key and re.fullmatch(rb"[\w-]+", key))
        for key, _ in keys.most_common(1):
            lines = run("find", store, topic, "--key", key.decode(), "-f", PLACE).stdout.splitlines()
            expected = [offset for offset, each in rows if each == key and offset >= start]
            shown = [int(line.split()[2]) for line in lines if line.split()[1] == partition]
            assert shown == expected, directory
            looked_for += 1
    assert looked_for > 20


@pytest.mark.golden
@pytest.mark.parametrize("expression", ["zeta", "^[a-m]", "[0-9]{3}$", "alpha.*gamma", "(?i)ZETA", "nothing has this"])
def test_values_are_found_as_by_grep(datasets: Callable[[str], Path], tmp_path: Path, expression: str) -> None:
    store = datasets("kafka-3.9") / "kafka-3.9" / "d1"
    for topic in ("t-none", "t-lz4", "t-v1"):
        if run("ls", store, f"{topic}/0").exit_code:
            continue
        values = tmp_path / topic
        values.write_bytes(run("cat", store, f"{topic}/0/values").stdout_bytes)
        grep = subprocess.run(["grep", "-acP", expression, values], capture_output=True, text=True, check=False)
        counted = run("find", store, topic, "--grep", expression, "--count")
        records = int(run("find", store, topic, "--count").stdout)
        assert records == values.read_bytes().count(b"\n"), "a value has a newline in it"
        assert counted.stdout == grep.stdout
        assert counted.exit_code == grep.returncode
        # What looks around itself is looked for value by value.
        apart = run("find", store, topic, "--grep", f"{expression}(?=.*|$)", "--count")
        assert apart.stdout == grep.stdout


@pytest.mark.golden
@pytest.mark.parametrize("name", ["kafka-2.2", "kafka-3.9"])
def test_records_are_divided_by_a_time_in_logs_that_brokers_compacted(
    datasets: Callable[[str], Path], name: str
) -> None:
    """Their cleaners left segments without a record at the beginning of each of these logs."""
    data_set = datasets(name) / name
    store = ",".join(str(data_set / log_dir) for log_dir in ("d1", "d2"))
    for topic in ("t-compact", "t-compact-gzip", "t-compactdelete", "t-hold-none"):
        times = [row["timestamp"] for row in found(store, topic)]
        for time_ms in (978307200000, times[len(times) // 2], max(times), max(times) + 1):
            first = next((index for index, each in enumerate(times) if each >= time_ms), len(times))
            assert [
                int(run("find", store, topic, option, time_ms, "--count").stdout) for option in ("--from", "--until")
            ] == [len(times) - first, first]
        leads_to = run("cat", store, f"{topic}/0/by-time/2001-01-01..2100-01-01.jsonl").stdout.splitlines()
        assert len(leads_to) == len(times)
        assert f"{topic}:0:" in run("cat", store, "by-time/2001-01-01").stdout


def test_each_criterion(filled_store: Path) -> None:
    assert offsets(filled_store, "orders", "--key", "k1") == [1, 4, 7, 10, 13, 16, 19]
    assert offsets(filled_store, "orders", "--header", "n=7") == [7]
    assert offsets(filled_store, "orders", "--header", "n") == list(range(20))
    assert offsets(filled_store, "--header", "m") == []
    assert offsets(filled_store, "orders", "--min-bytes", 18) == [18, 19]
    assert offsets(filled_store, "orders", "--max-bytes", 1) == [0, 1]
    assert offsets(filled_store, "orders", "--min-bytes", 3, "--max-bytes", 6, "--key", "k0") == [3, 6]
    assert offsets(filled_store, "orders", "--grep", "^x{4}$") == [4]
    assert [(row["topic"], row["value"]) for row in found(filled_store, "--null-key")] == [
        ("payments", "of 1"),
        ("payments", "of 2"),
    ]
    assert [row["value"] for row in found(filled_store, "--producer", 2)] == ["of 2"]
    assert [row["value"] for row in found(filled_store, "--transactional")] == ["of 1", "of 2"]
    assert [row["value"] for row in found(filled_store, "--transactional", "--isolation", "read_committed")] == ["of 1"]
    assert offsets(filled_store, "--null-value") == []


def test_times_are_those_of_by_time(filled_store: Path) -> None:
    start, end = "2023-11-14T22:13:25Z", "2023-11-14T22:13:27.001Z"
    shown = run("cat", filled_store, f"orders/0/by-time/{start}..{end}.jsonl").stdout
    assert run("find", filled_store, "orders", "--from", start, "--until", end).stdout == shown
    assert len(shown.splitlines()) == 3
    assert offsets(filled_store, "orders", "--until", "2023-11-14T22:13:21Z") == [0]


def test_partitions_are_merged_by_time_or_follow_each_other(filled_store: Path) -> None:
    in_order = [(row["topic"], row["offset"]) for row in found(filled_store, "*s", "--first", 3, "--order", "time")]
    assert in_order == [("orders", 0), ("payments", 0), ("payments", 2)]
    assert [row["topic"] for row in found(filled_store, "pay*", "orders", "--first", 3)] == [
        "payments",
        "payments",
        "orders",
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("-A", 1), [1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 19]),
        (("-B", 1), [0, 1, 3, 4, 6, 7, 9, 10, 12, 13, 15, 16, 18, 19]),
        (("-A", 2, "-B", 2), list(range(20))),
        (("-A", 5, "--first", 2), [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (("-B", 9, "--first", 1), [0, 1]),
    ],
)
def test_neighbours_come_once_each(filled_store: Path, options: tuple[object, ...], expected: list[int]) -> None:
    assert offsets(filled_store, "orders", "--key", "k1", *options) == expected


def test_damage_ends_the_search_of_its_log_alone(damaged_store: Path) -> None:
    stopped = run("find", damaged_store, "-f", PLACE)
    assert stopped.exit_code == 3
    assert stopped.stdout.splitlines() == [
        *(f"orders 0 {offset}" for offset in range(10)),
        "payments 0 0",
        "payments 0 2",
    ]
    assert "CRC" in stopped.stderr
    for options in ([], ["--grep", ""]):
        counted = run("find", damaged_store, "--count", *options)
        assert (counted.exit_code, counted.stdout) == (3, "12\n")
        assert "CRC" in counted.stderr
    skipped = run("find", damaged_store, "orders", "--damage", "skip", "-f", "%o ")
    assert (skipped.exit_code, skipped.stdout) == (0, "".join(f"{n} " for n in range(20) if n != 10))
    assert "CRC" in skipped.stderr


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--grep", "("), 2, "is no regular expression"),
        (("--key", "a", "--null-key"), 2, "exclude each other"),
        (("--from", "12"), 2, "is not a time"),
        (("--count", "--first", "2"), 2, "exclude each other"),
        (("-A", "1", "--order", "time"), 2, "order of their offsets"),
        (("-f", "%x"), 2, "is nothing a format can have"),
        (("nothing*",), 1, "there is no topic 'nothing*'"),
    ],
)
def test_wrong_uses(filled_store: Path, options: tuple[str, ...], code: int, said: str) -> None:
    done = run("find", filled_store, *options)
    shown = done.stderr + str(done.exception)
    assert (done.exit_code, said in shown) == (code, True), shown
