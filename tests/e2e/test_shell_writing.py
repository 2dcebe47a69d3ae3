"""What shells do with descriptors: every form of appending at once, receipts, parts of lines, shared descriptors."""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mounts import Mounted
    from small_disks import SmallDisk

pytestmark = pytest.mark.e2e

BATCHES = 20
BATCH_RECORDS = 5
LINES = 100


@pytest.fixture
def mounted(store_mounts: Callable[..., Mounted], tmp_path: Path) -> Mounted:
    """Mount a new store with a topic."""
    mounted = store_mounts(tmp_path / "store")
    assert mounted.run("mkdir orders && echo segment.bytes=16384 >> orders/config").returncode == 0
    return mounted


def records(mounted: Mounted) -> list[dict[str, Any]]:
    done = mounted.run("cat orders/0/records.jsonl")
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def batch(producer: int, number: int, timestamp_ms: int = 1_700_000_000_000) -> bytes:
    """A batch as an idempotent producer sends it."""
    builder = DefaultRecordBatchBuilder(2, 0, False, producer, 0, number * BATCH_RECORDS, 1 << 20)
    for i in range(BATCH_RECORDS):
        value = b"batch:%d:%d" % (producer, number * BATCH_RECORDS + i)
        builder.append(i, timestamp=timestamp_ms + number, key=b"%d" % producer, value=value, headers=[])
    return bytes(builder.build())


FORMS = {
    "line": "for ((i = 0; i < {n}; i++)); do echo line:{w}:$i >> orders/0/append || exit; done",
    "kv": r"for ((i = 0; i < {n}; i++)); do printf '{w}\tkv:{w}:%d\n' $i >> orders/0/append.kv || exit; done",
    "jsonl": 'seq 0 $(({n} - 1)) | jq -c \'{{key: "{w}", value: "jsonl:{w}:\\(.)", timestamp: .,'
    ' headers: [{{key: "of", value: "{w}"}}]}}\' >> orders/0/append.jsonl',
    "raw": r"for ((i = 0; i < {n}; i++)); do printf 'raw:{w}\n%d' $i | cat >> orders/0/append.raw || exit; done",
    "batch": 'for ((i = 0; i < {b}; i++)); do cat "{scratch}/batch-{w}-$i" >> orders/0/append.batch || exit; done',
}


def test_every_form_at_once(mounted: Mounted, tmp_path: Path) -> None:
    writers = range(1, 3)
    for writer in writers:
        for number in range(BATCHES):
            (tmp_path / f"batch-{writer}-{number}").write_bytes(batch(writer, number))
    commands = [
        form.format(w=writer, n=LINES, b=BATCHES, scratch=tmp_path) for form in FORMS.values() for writer in writers
    ]
    running = [
        subprocess.Popen(["bash", "-c", command], cwd=mounted.path, stderr=subprocess.PIPE) for command in commands
    ]
    for process in running:
        assert process.communicate(timeout=60)[1] == b""
        assert process.returncode == 0
    found = records(mounted)
    assert [record["offset"] for record in found] == list(range(len(commands) * LINES))
    values = [record["value"].replace("\n", ":") for record in found]
    for form in FORMS:
        for writer in writers:
            start = f"{form}:{writer}:"
            assert [value for value in values if value.startswith(start)] == [f"{start}{i}" for i in range(LINES)]
    keys = {(record["value"].partition(":")[0], record["key"]) for record in found}
    assert keys == {(form, key) for form in ("kv", "jsonl", "batch") for key in "12"} | {("line", None), ("raw", None)}
    assert {record["timestamp"] for record in found if record["value"].startswith("jsonl")} == set(range(LINES))
    assert sum(record["headers"] == [{"key": "of", "value": "1"}] for record in found) == LINES


def test_a_batch_that_is_sent_again_is_there_once(mounted: Mounted, tmp_path: Path) -> None:
    (tmp_path / "first").write_bytes(batch(7, 0))
    (tmp_path / "third").write_bytes(batch(7, 2))
    send = f"exec 3<>orders/0/append.batch; cat {tmp_path}/first >&3; cat <&3; cat {tmp_path}/first >&3; cat <&3"
    assert mounted.run(send).stdout == f"0..{BATCH_RECORDS - 1}\n" * 2
    late = mounted.run(f"cat {tmp_path}/third >> orders/0/append.batch")
    assert late.returncode == 1
    assert "Invalid argument" in late.stderr
    assert len(records(mounted)) == BATCH_RECORDS


def test_producers_are_listed_for_as_long_as_the_broker_knows_them(
    store_mounts: Callable[..., Mounted], tmp_path: Path
) -> None:
    settings = tmp_path / "server.properties"
    settings.write_text("producer.id.expiration.ms=2000\n")
    (tmp_path / "batch").write_bytes(batch(7, 0, timestamp_ms=time.time_ns() // 1_000_000))
    mounted = store_mounts(tmp_path / "store")
    done = mounted.run(f"mkdir orders && cat {tmp_path}/batch >> orders/0/append.batch && cut -f1 orders/0/producers")
    assert (done.returncode, done.stdout) == (0, "producerId\n7\n")
    assert mounted.end() == 0
    mounted = store_mounts(tmp_path / "store", "-o", f"ro,server_properties={settings}")
    mounted.until(lambda: mounted.run("cut -f1 orders/0/producers").stdout == "producerId\n")
    assert mounted.end() == 0


def test_receipts_say_where_each_line_went(mounted: Mounted) -> None:
    # Each writer reads the receipt after each of its lines, while the others write.
    script = """
for w in 1 2 3 4; do (
  exec 3<>orders/0/append
  for i in {1..50}; do
    echo "$w:$i" >&3 || exit 1
    read -r receipt <&3 || exit 1
    printf '%s %s\\n' "$receipt" "$w:$i"
  done
) & done
wait
"""
    done = mounted.run(script)
    assert (done.returncode, done.stderr) == (0, "")
    said = dict(line.split(" ") for line in done.stdout.splitlines())
    assert said == {f"{record['offset']}..{record['offset']}": record["value"] for record in records(mounted)}
    assert len(said) == 200


def test_every_receipt_is_kept_until_it_is_read(mounted: Mounted) -> None:
    script = "exec 3<>orders/0/append; for ((i = 0; i < 10000; i++)); do echo $i >&3 || exit 1; done; cat <&3; cat <&3"
    done = mounted.run(script, timeout_s=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [f"{offset}..{offset}" for offset in range(10_000)]


@pytest.mark.parametrize(
    ("script", "values"),
    [
        pytest.param("{ printf a; printf 'b\\n'; } >> orders/0/append", ["ab"], id="one-process"),
        pytest.param("{ printf a; printf b; } >> orders/0/append", ["ab"], id="one-process-no-newline"),
        pytest.param(
            "{ /usr/bin/printf a; /usr/bin/printf 'b\\n'; } >> orders/0/append", ["a", "b"], id="each-child-closes"
        ),
        pytest.param("{ echo a; echo b; } >> orders/0/append", ["a", "b"], id="braces"),
        pytest.param("(echo a; sh -c 'echo b'; dash -c 'echo c') >> orders/0/append", list("abc"), id="children"),
        pytest.param("exec 3>>orders/0/append 4>&3; echo a >&3; exec 3>&-; echo b >&4", ["a", "b"], id="dup"),
        pytest.param(
            "exec 3>>orders/0/append 4>>orders/0/append; /usr/bin/printf a >&3 & wait; printf 'b\\n' >&4",
            ["a", "b"],
            id="two-opens-do-not-mix",
        ),
        pytest.param("printf 'a\\n\\nb' | tee -a orders/0/append orders/0/append > /dev/null", None, id="tee-twice"),
        pytest.param("echo a | sed 's/a/b/w orders/0/append' > /dev/null", ["b"], id="sed-w"),
        pytest.param('awk \'BEGIN { print "a" >> "orders/0/append" }\'', ["a"], id="awk"),
        pytest.param("echo a | sort -o orders/0/append", ["a"], id="sort-o"),
        pytest.param(
            "set -o noclobber; echo a >| orders/0/append; echo b >> orders/0/append", ["a", "b"], id="clobber"
        ),
    ],
)
def test_descriptors(mounted: Mounted, script: str, values: list[str] | None) -> None:
    done = mounted.run(script)
    assert (done.returncode, done.stderr) == (0, "")
    found = [record["value"] for record in records(mounted)]
    if values is None:
        assert Counter(found) == {"a": 2, "": 2, "b": 2}
    else:
        assert found == values


def test_parts_of_lines_cut_anywhere(mounted: Mounted) -> None:
    cuts = random.Random(5)
    lines = [b"%d:%s" % (i, b"x" * cuts.randrange(300)) for i in range(2000)]
    rest = memoryview(b"".join(line + b"\n" for line in lines))
    descriptor = os.open(mounted.path / "orders/0/append", os.O_WRONLY | os.O_APPEND)
    while rest:
        rest = rest[os.write(descriptor, rest[: cuts.choice([1, 2, 7, 100, 4096, 65536])]) :]
    os.close(descriptor)
    assert mounted.run_bytes("cat orders/0/values").stdout.splitlines() == lines


def test_children_that_share_a_descriptor_write_whole_lines(mounted: Mounted) -> None:
    script = 'for i in {1..60}; do sh -c "echo line $i; echo more $i" & done >> orders/0/append; wait'
    assert mounted.run(script).returncode == 0
    found = [record["value"] for record in records(mounted)]
    assert Counter(found) == Counter(f"{word} {i}" for word in ("line", "more") for i in range(1, 61))
    assert all(found.index(f"line {i}") < found.index(f"more {i}") for i in range(1, 61))


def test_a_writer_that_is_killed_leaves_whole_lines(mounted: Mounted) -> None:
    code = "import os, signal; os.write(1, b'whole\\npart'); os.kill(os.getpid(), signal.SIGKILL)"
    assert mounted.run(f'python3 -c "{code}" >> orders/0/append').returncode == 137
    # The kernel closes for the dead as it does for the living, so what they had begun ends there.
    mounted.until(lambda: len(records(mounted)) == 2)
    assert [record["value"] for record in records(mounted)] == ["whole", "part"]


@pytest.mark.parametrize(
    "script",
    [
        "echo a >> orders/0/append; sync orders/0/append",
        "echo a >> orders/0/append; sync -d orders/0/values",
        "echo a | dd of=orders/0/append conv=notrunc,fsync status=none",
        "echo a | dd of=orders/0/append oflag=append,dsync conv=notrunc status=none",
        "printf a | dd of=orders/0/append oflag=sync conv=notrunc status=none",
    ],
)
def test_what_is_synced_is_on_disk(
    store_mounts: Callable[..., Mounted], small_disks: Callable[..., SmallDisk], script: str
) -> None:
    disk = small_disks(megabytes=64)
    mounted = store_mounts(disk.path / "store")
    assert mounted.run("mkdir orders && : >> orders/0/append").returncode == 0
    flushes = disk.flushes()
    done = mounted.run(script)
    assert (done.returncode, done.stderr) == (0, "")
    assert disk.flushes() > flushes
    assert [record["value"] for record in records(mounted)] == ["a"]
    mounted.end()
