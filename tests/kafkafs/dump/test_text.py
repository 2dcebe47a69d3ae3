"""The lines of a dump, beside those that the real tool of Kafka 3.9.2 printed.

`real_dumps` has small logs in hexadecimal digits, and what the tool printed of them after the line that names them:
with `--deep-iteration --print-data-log`, without the latter (`no-data`), without either (`batches-only`). `died` is
what it had printed when it died.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafs.dump.log_dump import LogDump, Selection
from kafkafs.dump.text import TextForm
from storage.files import Files
from storage.record.kernel.dump import record_line
from storage.record.reading import read_batches
from storage.testing.batch_codec import CONTROL, OracleRecord, batch_of, encode_batch

REAL_DUMPS = Path(__file__).parent / "real_dumps"
OPTIONS = {"": (True, True), "no-data": (False, True), "batches-only": (True, False)}

# Bytes, and what java.lang.String made of them.
JVM_TEXTS = [
    ("41", "A"),
    ("c3 a9", "\xe9"),
    ("e6 97 a5", "\u65e5"),
    ("f0 9f 98 80", "\U0001f600"),
    ("ef bf bd", "\ufffd"),
    ("00", "\x00"),
    ("80", "\ufffd"),
    ("bf bf", "\ufffd\ufffd"),
    ("c3", "\ufffd"),
    ("c3 41", "\ufffdA"),
    ("c3 c3 a9", "\ufffd\xe9"),
    ("c0 80", "\ufffd\ufffd"),
    ("c1 bf", "\ufffd\ufffd"),
    ("df", "\ufffd"),
    ("e6 97", "\ufffd"),
    ("e6 97 41", "\ufffdA"),
    ("e6 41", "\ufffdA"),
    ("e6 e6 97 a5", "\ufffd\u65e5"),
    ("e0 80 80", "\ufffd\ufffd\ufffd"),
    ("e0 9f bf", "\ufffd\ufffd\ufffd"),
    ("e0 a0 80", "\u0800"),
    ("e0 a0", "\ufffd"),
    ("e0 80", "\ufffd\ufffd"),
    ("e0 a0 c3 a9", "\ufffd\xe9"),
    ("ed 9f bf", "\ud7ff"),
    ("ed a0 80", "\ufffd"),
    ("ed bf bf", "\ufffd"),
    ("ed a0", "\ufffd"),
    ("ed a0 41", "\ufffdA"),
    ("ed a0 c3 a9", "\ufffd\xe9"),
    ("ed a0 80 ed b0 80", "\ufffd\ufffd"),
    ("ed", "\ufffd"),
    ("ee 80 80", "\ue000"),
    ("f0 9f 98", "\ufffd"),
    ("f0 9f", "\ufffd"),
    ("f0", "\ufffd"),
    ("f0 9f 98 41", "\ufffdA"),
    ("f0 9f 41", "\ufffdA"),
    ("f0 41", "\ufffdA"),
    ("f0 8f bf bf", "\ufffd\ufffd\ufffd\ufffd"),
    ("f0 80 80 80", "\ufffd\ufffd\ufffd\ufffd"),
    ("f0 90 80 80", "\U00010000"),
    ("f4 8f bf bf", "\U0010ffff"),
    ("f4 90 80 80", "\ufffd\ufffd\ufffd\ufffd"),
    ("f4 90", "\ufffd\ufffd"),
    ("f5 80 80 80", "\ufffd\ufffd\ufffd\ufffd"),
    ("f7 bf bf bf", "\ufffd\ufffd\ufffd\ufffd"),
    ("f8 88 80 80 80", "\ufffd\ufffd\ufffd\ufffd\ufffd"),
    ("fc 84 80 80 80 80", "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd"),
    ("fe ff", "\ufffd\ufffd"),
    ("f1 80 80 c2 41", "\ufffd\ufffdA"),
    ("f1 80 80 e6 97", "\ufffd\ufffd"),
    ("e1 80 e2 f0 91 92 f1 bf 41", "\ufffd\ufffd\ufffd\ufffdA"),
    ("61 f1 80 80 e1 80 c2 62 80 63 80 bf 64", "a\ufffd\ufffd\ufffdb\ufffdc\ufffd\ufffdd"),
]
# Bytes that begin, continue or break characters in every way there is.
TELLING_BYTES = bytes.fromhex("00417f808f909fa0bfc0c1c2dfe0e1ecedeeeff0f1f3f4f5f8ff")


def payload_of(data: bytes) -> str:
    """What is printed of the bytes, be they a key, a value or the name of a header."""
    (batch,) = read_batches(
        encode_batch(batch_of([OracleRecord(offset=0, key=data, value=data, headers=((name(data), b""),))]))
    )
    (record,) = batch.records()
    line = record_line(record, 0, None, True).decode()
    beginning = f"| offset: 0 CreateTime: -1 keySize: {len(data)} valueSize: {len(data)} sequence: -1 headerKeys: ["
    text = line.removeprefix(beginning)[: (len(line) - len(beginning) - len("] key:  payload: ")) // 3]
    assert line == f"{beginning}{text}] key: {text} payload: {text}"
    return text


def name(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


@pytest.mark.parametrize(("data", "text"), JVM_TEXTS)
def test_bytes_are_printed_as_the_jvm_reads_them(data: str, text: str) -> None:
    assert payload_of(bytes.fromhex(data)) == text


@pytest.mark.property
@given(st.binary(max_size=64) | st.lists(st.sampled_from(TELLING_BYTES), max_size=24).map(bytes))
def test_the_jvm_differs_from_python_over_surrogates_only(data: bytes) -> None:
    """To the JVM an encoded surrogate, whole or cut short, is one mistake; to Python each of its bytes is one."""
    with_single_mistakes = re.sub(rb"\xed[\xa0-\xbf][\x80-\xbf]?", b"\xff", data)
    assert payload_of(data) == with_single_mistakes.decode("utf-8", "replace")


def text_of(path: Path, *, with_data: bool = True, with_records: bool = True) -> str:
    """Return the dump of a log after the line that names the file."""
    with Files().open_reading(path) as file:
        dump = LogDump(file, TextForm(with_data=with_data), Selection(with_records=with_records))
        first, *lines = [line.decode() for run in dump for line in run]
    assert first == f"Dumping {path}"
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize("real_dump", sorted(REAL_DUMPS.glob("*.txt")), ids=lambda path: path.stem)
def test_logs_are_printed_as_by_the_real_tool(tmp_path: Path, real_dump: Path) -> None:
    log, *variant = real_dump.stem.removesuffix(".died").split(".")
    with_data, with_records = OPTIONS["".join(variant)]
    path = tmp_path / "00000000000000000007.log"
    path.write_bytes(bytes.fromhex((REAL_DUMPS / f"{log}.hex").read_text()))
    text = text_of(path, with_data=with_data, with_records=with_records)
    real_text = real_dump.read_bytes().decode()
    if real_dump.stem.endswith(".died"):
        assert text.startswith(f"{real_text}\nDamaged: ")
        assert text.count("\n") == real_text.count("\n") + 2
    elif (log, variant) == ("overrun-entry", ["no-data"]):
        # The value is missing, which the real tool does not notice unless it prints values.
        assert re.fullmatch(re.escape(real_text) + r"Damaged: the key or value overruns the entry .*\n", text)
    else:
        assert text == real_text


@pytest.mark.parametrize(
    ("file_name", "line"),
    [
        ("00000000000000000007.log", "Log starting offset: 7\n"),
        ("00000000000000000007.log.deleted", "Log starting offset: 7\n"),
        ("7.log.1a2b.swap", "Log starting offset: 7\n"),
        ("copy.log", ""),
        ("00000000000000000298-0000000001.checkpoint", "Snapshot end offset: 298, epoch: 1\n"),
        ("bootstrap.checkpoint", "KRaft bootstrap snapshot\n"),
        ("other.checkpoint", ""),
    ],
)
def test_the_name_of_a_file_says_where_it_begins_or_ends(tmp_path: Path, file_name: str, line: str) -> None:
    path = tmp_path / file_name
    path.write_bytes(b"")
    assert text_of(path) == line


def test_a_path_is_named_as_the_jvm_does() -> None:
    assert TextForm().heading("a//b/../c.log") == [b"Dumping a/b/../c.log"]
    assert TextForm().heading("./a\udcff.log") == [b"Dumping ./a\xff.log"]


def test_a_control_record_that_says_nothing_is_damage(tmp_path: Path) -> None:
    """The real tool prints the beginning of the line and dies; what follows in the log is printed here."""
    marker = OracleRecord(offset=5, key=struct.pack(">hh", 0, 1), value=b"\0\0")
    user = OracleRecord(offset=6, value=b"v")
    path = tmp_path / "00000000000000000005.log"
    path.write_bytes(encode_batch(batch_of([marker], attributes=CONTROL)) + encode_batch(batch_of([user])))
    _, _, record, damage, _, after = text_of(path).splitlines()
    assert record == "| offset: 5 CreateTime: -1 keySize: 4 valueSize: 2 sequence: -1 headerKeys: []"
    assert damage == f"Damaged: a control record of type 1 is cut short ({path}, position 0, offset 5)"
    assert after.endswith(" payload: v")
