"""`kafkafs retention` as a command: what it says, what it deletes, and what it leaves be."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from memory_logs import sent
from metadata_logs import BrokerDir, topic_record

from kafkafs.cli import main
from storage.clock import Clock
from storage.files import Files
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

SMALL = {"segment.bytes": "300", "segment.index.bytes": "120", "retention.ms": "-1"}


def retention(*arguments: object) -> Result:
    result = CliRunner().invoke(main, ["retention", *map(str, arguments)])
    assert "Traceback" not in result.output
    assert "bug" not in result.output
    return result


def contents(path: Path) -> dict[str, bytes]:
    return {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of ours: of the topic `old` the first two segments go, of `young` nothing."""
    path = tmp_path / "store"
    with Store.create([path], files=Files(), clock=Clock()) as made:
        for topic, limit in (("old", "1"), ("young", "-1")):
            made.topics.create(topic, 1, {**SMALL, "retention.bytes": limit})
            for number in range(6):
                made.log(topic, 0).append_as_leader(sent(b"%03d" % number * 20))
            assert made.log(topic, 0).view.bases == (0, 2, 4)
    return path


def test_a_dry_run_says_what_would_go_and_why(store: Path) -> None:
    before = contents(store)
    result = retention(store, "--dry-run")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0].startswith("old-0: 2 of 3 segments to be deleted")
    assert [line.partition(",")[0] for line in lines if line.startswith(("delete", "keep"))][:3] == [
        "delete offsets 0 to 1",
        "delete offsets 2 to 3",
        "keep offsets 4 to 5",
    ]
    assert lines[-1].startswith("2 partitions: 2 segments, ")
    assert lines[-1].endswith("bytes to be deleted")
    assert contents(store) == before


def test_without_being_told_it_plans_and_says_that_nothing_was_done(store: Path) -> None:
    before = contents(store)
    result = retention(store, "young")
    assert (result.exit_code, result.stderr) == (0, "kafkafs: nothing was deleted; --apply does it\n")
    assert result.stdout.startswith("young-0: nothing is to be deleted of 3 segments")
    assert contents(store) == before


def test_what_is_applied_is_gone_for_good(store: Path) -> None:
    result = retention(store, "--apply")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "old-0: done\n" in result.stdout
    assert "young-0: done" not in result.stdout
    assert result.stdout.splitlines()[-1].endswith("bytes deleted")
    names = {path.name for path in (store / "old-0").iterdir()}
    assert {name for name in names if name.endswith(".log")} == {f"{4:020}.log"}
    assert not any(name.endswith(".deleted") for name in names)
    assert (store / ".kafka_cleanshutdown").exists()
    with Store.open([store], mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as opened:
        assert opened.log("old", 0).view.start_offset == 4
        assert opened.log("young", 0).view.start_offset == 0
    assert "nothing is to be deleted" in retention(store, "old", "--apply").stdout


def test_every_form_says_the_same(store: Path) -> None:
    array = json.loads(retention(store, "--dry-run", "--json").stdout)
    assert array == [json.loads(line) for line in retention(store, "--dry-run", "--jsonl").stdout.splitlines()]
    old, young = array
    assert (old["topic"], old["partition"], old["segments"], old["deletedSegments"]) == ("old", 0, 3, 2)
    assert (old["startOffset"], old["newStartOffset"], old["endOffset"], old["isApplied"]) == (0, 4, 6, False)
    assert [segment["fate"] for segment in old["plan"]] == ["delete", "delete", "keep"]
    assert old["deletedBytes"] == sum(segment["bytes"] for segment in old["plan"][:2])
    assert young["deletedSegments"] == 0
    rows = list(csv.DictReader(io.StringIO(retention(store, "--dry-run", "--csv").stdout)))
    assert [(row["topic"], row["deletedBytes"]) for row in rows] == [("old", str(old["deletedBytes"])), ("young", "0")]
    assert retention(store, "--dry-run", "--table").stdout.startswith("topic  partition  segments")
    applied = json.loads(retention(store, "old", "--apply", "--json").stdout)
    assert applied == [{**old, "isApplied": True}]


def test_what_takes_space_beside_the_logs_is_named_with_its_bytes_on_disk(store: Path) -> None:
    (store / "old-0" / f"{7:020}.log.deleted").write_bytes(bytes(range(1, 101)) * 100)
    stray, deleted = f"old-3.{'a' * 32}-stray", f"gone-0.{'b' * 32}-delete"
    for name in (stray, deleted):
        (store / name).mkdir()
        (store / name / f"{0:020}.log").write_bytes(b"x" * 5000)
    with (store / stray / f"{0:020}.index").open("wb") as index:
        index.truncate(10_485_760)  # which takes no space
    before = contents(store)
    lines = retention(store, "--dry-run").stdout.splitlines()
    assert [line.removeprefix(f"{store}/") for line in lines if " beside the logs, " in line] == [
        "old-0: 1 file beside the logs, 10000 bytes: a broker removes these files when it starts",
        f"{deleted}: 1 file beside the logs, 5000 bytes: a broker removes it, after a restart at the latest",
        f"{stray}: 2 files beside the logs, 5000 bytes: no broker removes it; look into .kafkafs/unattached first",
    ]
    assert lines[-1].endswith("bytes to be deleted")
    assert sum(" beside the logs, " in line for line in retention(store, "old", "--dry-run").stdout.splitlines()) == 2
    assert " beside the logs, " not in retention(store, "young", "--dry-run").stdout
    assert contents(store) == before


def test_a_store_in_use_can_be_looked_at_only(store: Path) -> None:
    with Store.open([store], mode=Mode.READ_WRITE, files=Files(), clock=Clock()):
        for flag, code, words in (("--dry-run", 0, ""), ("--apply", 3, "has the store open for writing")):
            command = [sys.executable, "-m", "kafkafs", "retention", str(store), flag]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == code
            assert words in done.stderr


def test_a_store_of_a_broker_is_changed_on_request_only_and_unknown_topics_never(datasets, tmp_path: Path) -> None:
    source = datasets("kafka-3.9") / "kafka-3.9"
    shutil.copytree(source / "d2", tmp_path / "d2")
    before = contents(tmp_path / "d2" / "t-retain-0")
    result = retention(tmp_path / "d2", "--apply")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "give --rw" in result.stderr
    result = retention(tmp_path / "d2", "t-retain", "--apply", "--rw")
    assert result.exit_code == 0
    assert "nothing is deleted, because the topic's settings are unknown" in result.stdout
    assert f"`kafkafs topics config {tmp_path / 'd2'} t-retain cleanup.policy=delete`" in result.stderr
    assert contents(tmp_path / "d2" / "t-retain-0") == before


@pytest.mark.parametrize("command", ["retention", "compact"])
def test_the_metadata_of_the_cluster_is_no_topic_to_be_made_known(datasets, tmp_path: Path, command: str) -> None:
    source = datasets("kafka-3.9") / "kafka-3.9"
    shutil.copytree(source / "d1", tmp_path / "d1")
    assert (tmp_path / "d1" / "__cluster_metadata-0").is_dir()
    alone = CliRunner().invoke(main, [command, str(tmp_path / "d1"), "__cluster_metadata"])
    assert "are unknown" not in alone.stderr
    result = CliRunner().invoke(main, [command, str(tmp_path / "d1")])
    assert "are unknown" in result.stderr
    assert "__cluster_metadata" not in result.stderr


def test_an_unreadable_log_is_reported_and_does_not_stop_the_others(store: Path) -> None:
    (store / "old-0" / f"{0:020}.timeindex").unlink()
    (store / "old-0" / f"{0:020}.timeindex").mkdir()
    result = retention(store, "--dry-run")
    assert result.exit_code == 3
    assert "old-0: failed" in result.stdout
    assert "young-0: nothing is to be deleted" in result.stdout
    assert result.stdout.splitlines()[-1].endswith("1 failed")
    assert result.stderr.startswith("kafkafs: old-0: ")


def test_the_settings_of_a_broker_hold_where_the_topic_says_nothing(store: Path, tmp_path: Path) -> None:
    given = tmp_path / "server.properties"
    given.write_text("log.retention.bytes=1\nnum.io.threads=8\n")
    with Store.open([store], mode=Mode.READ_WRITE, files=Files(), clock=Clock()) as opened:
        opened.topics.change_config("young", {"retention.bytes": None})
    result = retention(store, "young", "--server-properties", given)
    assert result.stdout.startswith("young-0: 2 of 3 segments to be deleted")
    assert "cleanup.policy=delete retention.ms=-1 retention.bytes=1 " in result.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--dry-run", "--apply"], 2, "exclude each other"),
        (["nosuch", "--dry-run"], 1, "there is no topic 'nosuch'"),
        (["nosuch", "--apply"], 1, "there is no topic 'nosuch'"),
        (["--json", "--csv"], 2, "exclude each other"),
    ],
)
def test_what_cannot_be_asked_is_refused(store: Path, arguments: list[str], code: int, words: str) -> None:
    before = contents(store)
    result = retention(store, *arguments)
    assert result.exit_code == code
    assert words in result.stderr
    assert contents(store) == before


def test_what_makes_settings_known_is_advised(tmp_path: Path) -> None:
    broker = BrokerDir(Files(), str(tmp_path / "b"), first_offset=5)
    broker.add_partition("__consumer_offsets")
    broker.tell(topic_record("orders"))
    said = retention(broker.path).stderr.splitlines()[0]
    assert said == (
        "kafkafs: the settings of __consumer_offsets are unknown: the metadata log cannot be read: the log begins at "
        "offset 5, and no whole snapshot ends there or later (__cluster_metadata-0)"
    )
    broker.add_snapshot(5)
    said = retention(broker.path).stderr.splitlines()[0]
    assert f"`kafkafs topics config {broker.path} __consumer_offsets cleanup.policy=compact`, with --rw" in said
    broker.tell(topic_record("__consumer_offsets"))
    said = retention(broker.path).stderr.splitlines()[0]
    assert said.startswith("kafkafs: the settings of __consumer_offsets are unknown: server.properties may set it (--")
