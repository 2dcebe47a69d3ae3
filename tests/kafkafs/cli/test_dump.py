"""`kafkafs dump` as a command: options, exit codes, what goes to which stream, and how it ends."""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkafs.cli import main
from storage.testing.batch_codec import OracleRecord, batch_of, encode_batch
from storage.testing.mutations import mutate

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

KAFKAFS = [sys.executable, "-c", "from kafkafs.cli import main; main()"]
GZIP = 1
DAY_MS = 86_400_000


def batch(first: int, last: int, *, codec: int = 0) -> bytes:
    records = [
        OracleRecord(offset=offset, timestamp=offset * DAY_MS, key=b"k%d" % offset, value="é".encode() * offset)
        for offset in range(first, last + 1)
    ]
    return encode_batch(batch_of(records, attributes=codec))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(batch(0, 2) + batch(3, 5, codec=GZIP))
    return path


def dump(*arguments: object) -> Result:
    result = CliRunner().invoke(main, ["dump", *map(str, arguments)])
    assert "Traceback" not in result.output
    assert "bug" not in result.output
    return result


def offsets(result: Result) -> list[int]:
    return [int(line.split()[2]) for line in result.stdout.splitlines() if line.startswith("| offset: ")]


def test_a_sound_log_ends_with_0(log: Path) -> None:
    result = dump(log)
    first, second, *_ = result.stdout.splitlines()
    assert (result.exit_code, result.stderr) == (0, "")
    assert (first, second) == (f"Dumping {log}", "Log starting offset: 0")
    assert offsets(result) == [0, 1, 2, 3, 4, 5]
    assert result.stdout.endswith(" key: k5 payload: ééééé\n")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--from-offset", "1", "--to-offset", "4"], [1, 2, 3]),
        (["--from-offset=5"], [5]),
        (["--from-time", "1970-01-03", "--to-time", "1970-01-05T00:00:00.001Z"], [2, 3, 4]),
        (["--from-time", "1970-01-05"], [4, 5]),
        (["--to-time", "-52w"], [0, 1, 2, 3, 4, 5]),
        (["--from-time", "now"], []),
        (["--max-bytes", "200"], [0, 1, 2]),
        (["--max-bytes", "0"], []),
        (["--batches-only"], []),
        (["--no-data"], [0, 1, 2, 3, 4, 5]),
    ],
)
def test_options_choose_what_is_shown(log: Path, options: list[str], expected: list[int]) -> None:
    result = dump(*options, log)
    assert (result.exit_code, offsets(result), result.stderr) == (0, expected, "")


def test_batches_only_lists_batches_without_decompressing_them(log: Path) -> None:
    assert dump("--batches-only", log).stdout.count("\nbaseOffset: ") == 2
    assert dump("--batches-only", "--from-offset", "3", log).stdout.count("\nbaseOffset: ") == 1


def test_no_data_leaves_out_keys_and_values(log: Path) -> None:
    assert " headerKeys: []\n" in dump("--no-data", log).stdout
    assert " key: " not in dump("--no-data", log).stdout


def test_objects_are_lines_or_one_array(log: Path) -> None:
    lines = [json.loads(line) for line in dump("--jsonl", log, log).stdout.splitlines()]
    assert json.loads(dump("--json", log, log).stdout) == lines
    assert [fields["type"] for fields in lines] == (["file"] + 2 * (["batch"] + 3 * ["record"])) * 2
    assert lines[2]["value"] == ""
    assert lines[-1]["value"] == "ééééé"


def test_an_array_of_nothing_is_an_array(tmp_path: Path) -> None:
    result = dump("--json", tmp_path / "missing.log")
    assert (result.exit_code, json.loads(result.stdout)) == (1, [])


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--json", "--jsonl", "0.log"],
        ["--index-sanity-check", "--verify-index-only", "0.index"],
        ["--from-time", "tomorrow", "0.log"],
        ["--from-offset", "x", "0.log"],
        ["--max-bytes", "-1", "0.log"],
        ["--limit-bytes", "0", "0.log"],
    ],
)
def test_wrong_usage_ends_with_2(arguments: list[str]) -> None:
    result = dump(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr


def test_help_has_an_example_that_runs(log: Path) -> None:
    (example,) = dump("--help").stdout.split("Example:\n")[1].splitlines()
    command, subcommand, *options, path = example.split()
    assert (command, subcommand) == ("kafkafs", "dump")
    assert path == "/var/lib/kafka/orders-0/00000000000000000000.log"
    assert dump(*options, log).exit_code == 0


def test_what_cannot_be_looked_at_is_a_failure_and_the_others_are_dumped(tmp_path: Path, log: Path) -> None:
    directory = tmp_path / "directory.log"
    directory.mkdir()
    metadata = tmp_path / "partition.metadata"
    metadata.write_bytes(b"")
    result = dump(tmp_path / "missing.log", directory, metadata, log)
    assert (result.exit_code, offsets(result)) == (3, [0, 1, 2, 3, 4, 5])
    assert result.stderr.splitlines() == [
        f"kafkafs: {tmp_path}/missing.log: No such file or directory",
        f"kafkafs: {directory}: Is a directory",
        f"kafkafs: {metadata}: not the name of a log, an index, a snapshot or a checkpoint",
    ]


def test_gaps_are_reported_on_standard_error_after_each_log(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(batch(0, 2) + batch(10, 10) + batch(20, 20))
    result = dump(path, path)
    report = f"Non-consecutive offsets in {path}\n  10 is followed by 20\n  2 is followed by 10\n"
    assert (result.exit_code, result.stderr) == (0, 2 * report)
    assert result.output.index(report) < result.output.rindex("Dumping ")


DAMAGED = {
    "a flipped bit": lambda data: data[:90] + bytes([data[90] ^ 1]) + data[91:],
    "a cut file": lambda data: data[:-1],
    "a header cut short": lambda data: data + data[:9],
    "a length of -1": lambda data: data + struct.pack(">qi", 9, -1) + data[12:],
    "a length of 2^31-1": lambda data: data + struct.pack(">qi", 9, 2**31 - 1) + data[12:],
    "a tail of zeros": lambda data: data + bytes(4096),
    "a tail of random bytes": lambda data: data + random.Random(1).randbytes(500),
    "nothing but zeros": lambda _: bytes(4096),
    "nothing but random bytes": lambda _: random.Random(2).randbytes(4096),
    "text": lambda _: b"2026-11-21 02:14:00 INFO not such a log\n" * 100,
}


@pytest.mark.parametrize("kind", DAMAGED)
@pytest.mark.parametrize("options", [[], ["--jsonl"], ["--no-data"], ["--batches-only"], ["--from-offset", "1"]])
def test_damage_is_a_line_and_ends_with_1(log: Path, kind: str, options: list[str]) -> None:
    sound = log.read_bytes()
    log.write_bytes(DAMAGED[kind](sound))
    result = dump(*options, log)
    assert result.exit_code == 1
    expected = ("Damaged: ", "Found ", "isvalid: false", '"damage"', '"trailing"', '"isValid":false')
    assert any(sign in result.stdout for sign in expected)
    assert result.stderr == ""


@pytest.mark.parametrize("seed", range(100))
def test_no_damage_ends_in_a_traceback(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(mutate(random.Random(seed), batch(0, 2) + batch(3, 5, codec=GZIP)))
    assert dump(path).exit_code in (0, 1)


def test_a_bomb_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(encode_batch(batch_of([OracleRecord(offset=0, value=bytes(10**6))], attributes=GZIP)))
    result = dump("--limit-bytes", 10**5, path)
    assert result.exit_code == 1
    assert f"({path}, position 0, offset 0)" in result.stdout.splitlines()[-1]
    assert dump(path).exit_code == 0


def test_a_closed_pipe_ends_it_silently(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(encode_batch(batch_of([OracleRecord(offset=0, value=bytes(10**6))])) * 20)
    with subprocess.Popen([*KAFKAFS, "dump", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(8) == b"Dumping "
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_an_output_that_takes_nothing_is_a_sentence(log: Path) -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        done = subprocess.run([*KAFKAFS, "dump", log], stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (3, b"kafkafs: standard output: No space left on device\n")


def test_the_text_is_utf_8_in_every_locale(log: Path) -> None:
    environment = {**os.environ, "LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run([*KAFKAFS, "dump", log], env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.endswith(" payload: ééééé\n".encode())


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], " key: \x00\x00\x00\x01t payload: \x00"),
        (["--transaction-log-decoder"], " key: transaction_metadata::transactionalId=t payload: <DELETE>"),
        (
            ["--transaction-log-decoder", "--as", "4"],
            ' key: {"type":"0","data":{"transactionalId":"t"}} payload: <DELETE>',
        ),
    ],
)
def test_decoders_show_internal_records_as_the_release_does(tmp_path: Path, options: list[str], expected: str) -> None:
    log = tmp_path / "00000000000000000000.log"
    value = None if options else b"\0"
    log.write_bytes(encode_batch(batch_of([OracleRecord(offset=0, key=b"\0\0\0\x01t", value=value)])))
    result = dump(*options, log)
    assert (result.exit_code, result.stdout.splitlines()[-1].partition("headerKeys: []")[2]) == (0, expected)


@pytest.mark.parametrize("name", ["offsets", "cluster-metadata", "share-group-state", "remote-log-metadata"])
def test_every_decoder_takes_any_log_and_goes_on(log: Path, name: str) -> None:
    result = dump(f"--{name}-decoder", log)
    assert (result.exit_code, offsets(result)) == (0, [0, 1, 2, 3, 4, 5])


def test_a_decoder_gives_objects_in_json(tmp_path: Path) -> None:
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(encode_batch(batch_of([OracleRecord(offset=0, key=b"\0\0\0\x01t")])))
    record = json.loads(dump("--transaction-log-decoder", "--jsonl", log).stdout.splitlines()[-1])
    assert record["key"]["data"] == {"transactionalId": "t"}
    assert record["value"] is None


def test_a_decoder_without_data_is_wrong_usage(log: Path) -> None:
    result = dump("--offsets-decoder", "--no-data", log)
    assert result.exit_code == 2
    assert "--no-data and decoders exclude each other." in result.stderr


def test_a_log_on_standard_input(log: Path) -> None:
    due = dump(log).stdout.replace(str(log), "-").replace("Log starting offset: 0\n", "")  # which its name says
    with log.open("rb") as file:
        named = subprocess.run([*KAFKAFS, "dump", "-"], stdin=file, capture_output=True, check=False)
    piped = subprocess.run([*KAFKAFS, "dump", "-"], input=log.read_bytes(), capture_output=True, check=False)
    for done in (named, piped):
        assert (done.returncode, done.stdout.decode(), done.stderr) == (0, due, b"")
    torn = subprocess.run([*KAFKAFS, "dump", "-"], input=log.read_bytes()[:-1], capture_output=True, check=False)
    assert (torn.returncode, b"Found 124 invalid bytes at the end of -" in torn.stdout) == (1, True), torn.stdout
    nothing = subprocess.run([*KAFKAFS, "dump", "-"], input=b"", capture_output=True, check=False)
    assert (nothing.returncode, nothing.stdout.splitlines()[0]) == (0, b"Dumping -")


def test_a_pipe_for_which_there_is_no_room(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    limited = ["bash", "-c", 'ulimit -f 64; exec "$@"', "bash", *KAFKAFS, "dump", "-"]
    with open("/dev/zero", "rb") as endless:  # noqa: PTH123
        done = subprocess.run(limited, stdin=endless, capture_output=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (3, b"kafkafs: -: File too large\n")
    assert list(tmp_path.iterdir()) == []
