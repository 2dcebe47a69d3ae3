"""`kafkafs cat` as a command: every name and form, kcat's format, and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkafs.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

TIME_MS = 1_700_000_000_000


def cat(*arguments: object) -> Result:
    result = CliRunner().invoke(main, ["cat", *map(str, arguments)])
    assert "Traceback" not in result.output
    assert "bug" not in result.output
    return result


def done(*arguments: object) -> bytes:
    result = cat(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout_bytes


def refused(*arguments: object, code: int = 3) -> str:
    result = cat(*arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    return result.stderr.rstrip("\n")


def state_of(root: Path) -> dict[Path, tuple[int, int]]:
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in (root, *root.rglob("*"))}


def values(*offsets: int) -> bytes:
    return b"".join(b"x" * offset + b"\n" for offset in offsets)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("offset/3", b"xxx"),
        ("offset/0", b""),
        ("offset/latest", b"x" * 19),
        ("offset/earliest", b""),
        ("offset/last-10", b"x" * 10),
        ("offset/-10.key", b"k1"),
        ("offset/7.headers", b"n: 7\n"),
        ("offset/5..8", values(5, 6, 7)),
        ("offset/..2", values(0, 1)),
        ("offset/last-2..", values(18, 19)),
        ("offset/8..5", b""),
        ("offset/100..200", b""),
        ("offset/all", values(*range(20))),
        ("values", values(*range(20))),
        ("by-time/1700000003000", b"xxx"),
        ("by-time/2023-11-14T22:13:22.001Z", b"xxx"),
        ("by-time/2023-11-14T22:13:23..2023-11-14T22:13:25", values(3, 4)),
        ("by-time/2023-11-14T22:13:23.0001..2023-11-14T22:13:25.0001", values(4, 5)),
        ("by-time/..2023-11-14T22:13:22", values(0, 1)),
        ("by-time/-1w..now", b""),
        ("log-start-offset", b"0\n"),
    ],
)
def test_names_of_the_grammar(filled_store: Path, name: str, expected: bytes) -> None:
    before = state_of(filled_store)
    assert done(filled_store, f"orders/0/{name}") == done(filled_store, f"/orders//0/./{name}") == expected
    assert state_of(filled_store) == before


def test_envelopes(filled_store: Path) -> None:
    expected = {
        "topic": "orders",
        "partition": 0,
        "offset": 5,
        "timestamp": TIME_MS + 5000,
        "timestampType": "CreateTime",
        "key": "k2",
        "value": "xxxxx",
        "headers": [{"key": "n", "value": "5"}],
    }
    one = done(filled_store, "orders/0/offset/5..6.json")
    assert (json.loads(one), one.count(b"\n")) == (expected, 15)
    told = json.loads(done(filled_store, "orders/0/offset/5.json"))
    batch = told.pop("batch")
    assert told == expected
    assert (batch["baseOffset"] <= 5 <= batch["lastOffset"], batch["transaction"]) == (True, None)
    assert done(filled_store, "orders/0/offset/5..6.jsonl") == done(filled_store, "orders/0/offset/5.jsonl")
    lines = done(filled_store, "orders/0/records.jsonl").splitlines()
    assert json.loads(lines[5]) == expected
    assert [json.loads(line)["offset"] for line in lines] == list(range(20))


def test_raw_files_and_their_twins(filled_store: Path) -> None:
    name = f"{0:020}.log"
    real = (filled_store / "orders-0" / name).read_bytes()
    assert done(filled_store, f"orders/0/segments/{name}") == done(filled_store, "orders/0/offset/all.batch") == real
    assert done(filled_store, f"orders/0/segments/{name}.txt").startswith(f"Dumping {name}\n".encode())


def test_several_paths_follow_one_another(filled_store: Path) -> None:
    paths = ["orders/0/offset/4", "orders/0/offset/2", "orders/0/offset/4"]
    assert done(filled_store, *paths) == b"xxxxxxxxxx"


def test_isolation(filled_store: Path) -> None:
    assert done(filled_store, "payments/0/values") == b"of 1\nof 2\n"
    assert done(filled_store, "payments/0/values", "--isolation", "read_committed") == b"of 1\n"
    assert b"\naborted\t2\t" in done(filled_store, "payments/0/transactions")


def test_formats_of_kcat(filled_store: Path) -> None:
    assert done(filled_store, "orders/0/offset/5..7", "-f", r"%t %p %o %k %s %T\n") == (
        b"orders 0 5 k2 xxxxx 1700000005000\norders 0 6 k0 xxxxxx 1700000006000\n"
    )
    assert done(filled_store, "orders/0/offset/2", "--format", r"%K %S %h %k{hex} %s{base64}%%\t") == (
        b"2 2 n=2 6b32 eHg=%\t"
    )
    for path in ("orders/0/values", "orders/0/by-time/..2030-01-01", "orders/0/offset/all"):
        assert done(filled_store, path, "-f", r"%o,") == b"".join(b"%d," % offset for offset in range(20))
    assert "Invalid value for --format" in refused(filled_store, "orders/0/offset/2", "-f", "%y", code=2)
    assert "not made of records" in refused(filled_store, "orders/0/info", "-f", "%o", code=2)


@pytest.mark.parametrize("place", ["orders/0/by-time", "by-time"])
def test_a_number_that_would_mean_1970_is_refused_in_a_sentence(filled_store: Path, place: str) -> None:
    said = refused(filled_store, f"{place}/1700000003", code=2)
    assert "if it is seconds, write 1700000003000; a date is written 2024-01-01" in said
    assert "if it is a date, write 2024-01-01" in refused(filled_store, f"{place}/2024", code=2)


@pytest.mark.parametrize(
    "path", ["none/0/values", "orders/2/values", "orders/0/offset/20", "orders/0/by-time/2030-01-01"]
)
def test_what_is_not_there(filled_store: Path, path: str) -> None:
    said = refused(filled_store, path, code=1)
    assert said.startswith("kafkafs: ")
    assert path.partition("/")[0] in said
    assert len(said.splitlines()) == 1


def test_what_cannot_be_printed(filled_store: Path) -> None:
    assert "orders/0 is a directory; kafkafs ls lists it" in refused(filled_store, "orders/0", code=2)
    assert "'nothing' is not in a partition" in refused(filled_store, "orders/0/nothing", code=2)
    assert "'..' is not in a partition" in refused(filled_store, "orders/0/../0/values", code=2)
    assert "Missing argument 'PATH...'" in refused(filled_store, code=2)
    assert (
        refused(filled_store / "none", "x", code=2) == f"kafkafs: there is no such directory ({filled_store / 'none'})"
    )


def test_everything_before_damage_is_printed(damaged_store: Path) -> None:
    for path in ("orders/0/values", "orders/0/offset/all"):
        result = cat(damaged_store, path)
        assert (result.exit_code, result.stdout_bytes) == (3, values(*range(10)))
        assert result.stderr.startswith("kafkafs: ")
        assert "offset 10" in result.stderr
        assert len(result.stderr.splitlines()) == 1
        skipped = values(*(offset for offset in range(20) if offset != 10))
        assert done(damaged_store, path, "--damage", "skip") == skipped
    assert "offset 10" in refused(damaged_store, "orders/0/offset/10")
    assert done(damaged_store, "orders/0/offset/11") == b"x" * 11


def test_what_is_missing_or_damaged_keeps_no_other_path_from_being_printed(damaged_store: Path) -> None:
    result = cat(damaged_store, "none/0/values", "orders/0/offset/3", "orders/0/offset/999", "orders/0/offset/4")
    assert (result.exit_code, result.stdout) == (1, "xxx" + "xxxx")
    assert [line.startswith("kafkafs: ") for line in result.stderr.splitlines()] == [True, True]
    result = cat(damaged_store, "orders/0/offset/10", "none/0/values", "orders/0/offset/11")
    assert (result.exit_code, result.stdout) == (3, "x" * 11)
    assert len(result.stderr.splitlines()) == 2


def test_the_settings_of_a_broker_show_where_the_topic_says_nothing(filled_store: Path, tmp_path: Path) -> None:
    given = tmp_path / "server.properties"
    given.write_text("log.retention.ms=86400001\nlog.segment.bytes=12345678\n")
    settings = done(filled_store, "orders/config", "--server-properties", given).decode().splitlines()
    assert {line.split()[0] for line in settings if line.endswith("# broker")} == {
        "retention.ms=86400001",
        "segment.bytes=12345678",
    }
    listed = CliRunner().invoke(main, ["ls", str(filled_store), "orders", "--server-properties", str(given)])
    assert (listed.exit_code, "config" in listed.stdout.splitlines()) == (0, True)


def test_a_reader_that_goes_away(filled_store: Path) -> None:
    command = [sys.executable, "-P", "-m", "kafkafs", "cat", str(filled_store), "orders/0/values"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (141, b"")


@pytest.mark.golden
@pytest.mark.parametrize("name", ["kafka-3.9", "kafka-2.2", "kafka-3.9-killed"])
def test_what_a_real_broker_wrote_is_printed_and_left_as_it_was(datasets: Callable[[str], Path], name: str) -> None:
    root = datasets(name) / name
    before = state_of(root)
    store = f"{root / 'd1'},{root / 'd2'}"
    compared = 0
    for dumped in sorted(root.with_name(f"{name}.dump").glob("d?/t-[a-oq-z]*-0/*.log.txt")):
        topic = dumped.parent.name.rpartition("-")[0]
        text = done(store, f"{topic}/0/segments/{dumped.name}")
        assert text.partition(b"\n")[2] == dumped.read_bytes(), dumped
        compared += 1
        offsets = done(store, f"{topic}/0/values", "-f", r"%o\n", "--damage", "skip").split()
        envelopes = done(store, f"{topic}/0/records.jsonl", "--damage", "skip").splitlines()
        assert [int(offset) for offset in offsets] == [json.loads(line)["offset"] for line in envelopes]
    assert compared > 3
    assert state_of(root) == before
