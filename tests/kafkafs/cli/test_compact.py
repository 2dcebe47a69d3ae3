"""`kafkafs compact` as a command: what it says, what it makes of a log, and what it leaves be."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from memory_logs import NOW_MS, sent

from kafkafs.cli import main
from storage.clock import Clock
from storage.files import Files
from storage.log_dir.checkpoints import OffsetCheckpoint, read_offsets
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

SMALL = {"segment.bytes": "300", "segment.index.bytes": "120", "cleanup.policy": "compact"}
PLANNED = "kafkafs: nothing was changed; --dry-run says what would be left, --apply does it\n"
DUE = "due-0: the log is due: 100.0% of its bytes are dirty, and min.cleanable.dirty.ratio is 50.0%"


def compact(*arguments: object) -> Result:
    result = CliRunner().invoke(main, ["compact", *map(str, arguments)])
    assert "Traceback" not in result.output
    assert "bug" not in result.output
    return result


def rows_of(result: Result) -> list[dict[str, Any]]:
    """What was printed as JSON, in either form, but for how long it took and what was written for it."""
    found = [json.loads(line.strip(",")) for line in result.stdout.splitlines() if line not in ("[", "]")]
    for row in found:
        if row["report"] is not None:
            assert row["report"].pop("durationS") >= 0
            assert row["report"].pop("writtenBytes") == (row["afterBytes"] if row["isApplied"] else 0)
    return found


def contents(path: Path) -> dict[str, bytes]:
    return {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}


def latest(store: Path, topic: str) -> dict[bytes | None, tuple[int, bytes | None]]:
    """The offset and the value of the last record of each key, which is all that compaction promises to keep."""
    with Store.open([store], mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as opened:
        batches = opened.log(topic, 0).view.batches(0)
        return {record.key: (record.offset, record.value) for batch in batches for record in batch.records()}


def count(store: Path, topic: str) -> int:
    with Store.open([store], mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as opened:
        return sum(1 for batch in opened.log(topic, 0).view.batches(0) for _ in batch.records())


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of ours: `due` is to be compacted, `clean` is not dirty enough, and `plain` never is."""
    path = tmp_path / "store"
    settings = {
        "due": SMALL,
        "clean": {**SMALL, "min.cleanable.dirty.ratio": "1"},
        "plain": {**SMALL, "cleanup.policy": "delete"},
    }
    with Store.create([path], files=Files(), clock=Clock()) as made:
        for topic, given in settings.items():
            made.topics.create(topic, 1, given)
            for number in range(7):
                made.log(topic, 0).append_as_leader(sent([(NOW_MS, b"%03d" % number * 20)], key=b"%d" % (number % 2)))
            assert made.log(topic, 0).view.bases == (0, 2, 4, 6)
    return path


def test_without_being_told_it_plans_and_reads_no_record(store: Path) -> None:
    before = contents(store)
    result = compact(store)
    assert (result.exit_code, result.stderr) == (0, PLANNED)
    lines = result.stdout.splitlines()
    assert lines[0].startswith("clean-0: the log is not compacted yet: 100.0% of its bytes are dirty")
    assert DUE in lines
    assert "dirty: offsets 0 to 5, before 6, where the active segment begins" in lines
    assert not any("become" in line or line.startswith("plain-0") for line in lines)
    size_bytes = sum((store / "due-0" / f"{base:020}.log").stat().st_size for base in (0, 2, 4))
    assert lines[-1] == f"2 partitions: 1 to be compacted, {size_bytes} bytes dirty"
    assert contents(store) == before


def test_a_named_topic_is_shown_though_it_is_not_compacted(store: Path) -> None:
    result = compact(store, "plain")
    assert result.stdout.splitlines() == [
        "plain-0: nothing is compacted, because the topic's cleanup.policy does not say so",
        "1 partition: 0 to be compacted, 0 bytes dirty",
    ]


def test_a_dry_run_says_to_the_byte_what_applying_leaves(store: Path) -> None:
    before, kept = contents(store), latest(store, "due")
    said = compact(store, "due", "--dry-run")
    assert (said.exit_code, said.stderr) == (0, "")
    assert contents(store) == before
    [row] = json.loads(compact(store, "due", "--dry-run", "--json").stdout)
    done = compact(store, "due", "--apply")
    assert (done.exit_code, done.stderr) == (0, "")
    *planned, total = said.stdout.splitlines()
    assert done.stdout.splitlines() == [*planned, "due-0: done", total.replace("to be compacted", "compacted")]
    assert f"{row['beforeBytes']} bytes become {row['afterBytes']}" in total
    logs = sorted(path for path in (store / "due-0").iterdir() if path.suffix == ".log")
    assert sum(path.stat().st_size for path in logs[:-1]) == row["afterBytes"]
    assert count(store, "due") == row["recordsKept"] + 1  # and the one in the active segment
    assert latest(store, "due") == kept
    assert not any(name.endswith((".deleted", ".cleaned", ".swap")) for name in contents(store))
    assert read_offsets(Files().directory(store), OffsetCheckpoint.FIRST_DIRTY) == {("due", 0): 6}
    assert (store / ".kafka_cleanshutdown").exists()
    again = compact(store, "due", "--apply")
    assert again.stdout.startswith(
        "due-0: there is nothing to compact before offset 6, where the active segment begins"
    )
    assert again.exit_code == 0


def test_only_force_takes_in_what_is_not_due(store: Path) -> None:
    before, kept = contents(store / "clean-0"), latest(store, "clean")
    assert "done" not in compact(store, "clean", "--apply").stdout
    assert contents(store / "clean-0") == before
    assert " bytes become " in compact(store, "clean", "--dry-run", "--force").stdout
    assert contents(store / "clean-0") == before
    result = compact(store, "clean", "--apply", "--force")
    assert result.exit_code == 0
    assert "clean-0: done\n1 partition: 1 compacted, " in result.stdout
    assert contents(store / "clean-0") != before
    assert latest(store, "clean") == kept


def test_every_form_says_the_same(store: Path) -> None:
    clean, due = rows_of(compact(store, "--dry-run", "--json"))
    assert [clean, due] == rows_of(compact(store, "--dry-run", "--jsonl"))
    assert (clean["topic"], clean["verdict"], clean["report"]) == ("clean", "too_clean", None)
    assert (due["topic"], due["partition"], due["verdict"], due["isApplied"]) == ("due", 0, "dirty", False)
    assert (due["firstDirtyOffset"], due["uncleanableOffset"], due["checkpoint"]) == (0, 6, None)
    assert due["dirtyBytes"] == sum(segment["bytes"] for segment in due["plan"])
    assert (due["recordsRead"], due["recordsKept"]) == (6, 2)
    assert due["report"]["firstDirtyOffset"] == 6
    keys = [key for row in (clean, due) for each in (row, *row["plan"], row["report"] or {}) for key in each]
    assert [key for key in keys if "_" in key or key in {"device", "inode"}] == []
    rows = list(csv.DictReader(io.StringIO(compact(store, "--dry-run", "--csv").stdout)))
    assert [(row["topic"], row["afterBytes"]) for row in rows] == [("clean", ""), ("due", str(due["afterBytes"]))]
    assert compact(store, "--dry-run", "--table").stdout.startswith("topic  partition  verdict")
    [applied] = rows_of(compact(store, "due", "--apply", "--json"))
    assert applied == {**due, "isApplied": True}


def test_a_store_in_use_can_be_looked_at_only(store: Path) -> None:
    with Store.open([store], mode=Mode.READ_WRITE, files=Files(), clock=Clock()):
        for flag, code, words in (("--dry-run", 0, ""), ("--apply", 3, "has the store open for writing")):
            command = [sys.executable, "-m", "kafkafs", "compact", str(store), flag]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == code
            assert words in done.stderr


def test_a_store_of_a_broker_is_changed_on_request_only_and_unknown_topics_never(datasets, tmp_path: Path) -> None:
    shutil.copytree(datasets("kafka-3.9-compaction") / "kafka-3.9-compaction-before", tmp_path / "before")
    before = contents(tmp_path / "before")
    result = compact(tmp_path / "before", "--apply")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "give --rw" in result.stderr
    result = compact(tmp_path / "before", "--apply", "--rw", "--force")
    assert result.exit_code == 0
    assert result.stdout.count("nothing is compacted, because the topic's settings are unknown") == 2
    assert f"`kafkafs topics config {tmp_path / 'before'} " in result.stderr
    after = contents(tmp_path / "before")
    assert {name: after[name] for name in before if name.endswith(".log")} == {
        name: data for name, data in before.items() if name.endswith(".log")
    }


def test_an_unreadable_log_is_reported_and_does_not_stop_the_others(store: Path) -> None:
    log = store / "clean-0" / f"{2:020}.log"
    log.write_bytes(log.read_bytes()[:-9] + b"\0" * 9)
    result = compact(store, "--dry-run", "--force")
    assert result.exit_code == 3
    assert result.stderr.startswith("kafkafs: clean-0: ")
    assert DUE in result.stdout
    assert result.stdout.splitlines()[-1].endswith(", 1 failed")
    [row] = json.loads(compact(store, "clean", "--dry-run", "--force", "--json").stdout)
    assert row["verdict"] is None
    assert row["reason"] in result.stderr


def test_the_settings_of_a_broker_hold_where_the_topic_says_nothing(store: Path, tmp_path: Path) -> None:
    given = tmp_path / "server.properties"
    given.write_text("log.cleaner.min.cleanable.ratio=1\n")
    result = compact(store, "due", "--server-properties", given)
    assert "100.0% of its bytes are dirty, and min.cleanable.dirty.ratio is 100.0%" in result.stdout
    given.write_text("log.cleaner.min.cleanable.ratio=2\n")
    result = compact(store, "due", "--server-properties", given)
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.rstrip().endswith(f"({given})")


def test_a_disabled_cleaner_leaves_every_log_alone_and_is_named_unless_compaction_is_forced(
    store: Path, tmp_path: Path
) -> None:
    given = tmp_path / "server.properties"
    given.write_text("log.cleaner.enable=false\n")
    before = count(store, "due")
    result = compact(store, "due", "--server-properties", given)
    assert result.exit_code == 0
    assert result.stdout.startswith("due-0: nothing is compacted, because log.cleaner.enable=false; 100.0% of its")
    assert result.stdout.splitlines()[-1] == "1 partition: 0 to be compacted, 0 bytes dirty"
    result = compact(store, "due", "--apply", "--server-properties", given)
    assert (result.exit_code, count(store, "due")) == (0, before)
    result = compact(store, "due", "--apply", "--force", "--server-properties", given)
    assert result.exit_code == 0
    assert "due-0: done\n" in result.stdout
    assert count(store, "due") < before


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--dry-run", "--apply"], 2, "exclude each other"),
        (["nosuch", "--dry-run"], 1, "there is no topic 'nosuch'"),
        (["nosuch", "--apply"], 1, "there is no topic 'nosuch'"),
        (["--json", "--csv"], 2, "exclude each other"),
        (["--server-properties", "nowhere"], 2, "File 'nowhere' does not exist"),
    ],
)
def test_what_cannot_be_asked_is_refused(store: Path, arguments: list[str], code: int, words: str) -> None:
    before = contents(store)
    result = compact(store, *arguments)
    assert result.exit_code == code
    assert words in result.stderr
    assert contents(store) == before


def test_logs_that_need_no_compaction_are_not_opened_for_writing(store: Path) -> None:
    torn = {}
    for topic in ("plain", "clean"):
        last = max((store / f"{topic}-0").glob("*.log"))
        last.write_bytes(last.read_bytes() + b"torn")
        torn[last] = last.read_bytes()
    assert compact(store, "--apply").exit_code == 0
    assert count(store, "due") < count(store, "plain")
    for path, before in torn.items():
        assert path.read_bytes() == before  # opening it would have cut it
