"""`kafkafs revive`: its plan, its refusals, what it takes in, and that a run can be gone on with."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from revived_stores import fingerprint, revive

import kafkafs
from kafkafs.cli import main
from storage.files import Files
from storage.log_dir import OffsetCheckpoint, read_offsets, write_offsets

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RECORDS = 50


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Give a store with two topics."""
    with kafkafs.open([tmp_path / "disk"], write=True) as store:
        for topic in ("orders", "customers"):
            store.create(topic, settings={"segment.bytes": "1048576", "min.insync.replicas": "2"})
            store[topic][0].append_many({"value": b"%d" % number} for number in range(RECORDS))
    return tmp_path / "disk"


def planned(*arguments: object) -> dict[str, dict[str, object]]:
    """Return the topics of a plan, by name."""
    plan = json.loads(revive(*arguments, "--into", "/nowhere/at-all", "--plan", "--json"))
    return {topic["topic"]: topic for topic in plan["topics"]}


def test_a_plan_changes_nothing_and_says_what_would_be_done(disk: Path, tmp_path: Path) -> None:
    before = fingerprint([tmp_path])
    topics = planned(disk, "--topics", "orders")
    assert fingerprint([tmp_path]) == before
    assert list(topics) == ["orders"]
    assert topics["orders"]["settings"] == {
        "cleanup.policy": "delete",
        "retention.bytes": "-1",
        "retention.ms": "-1",
        "segment.bytes": "1048576",
    }
    assert topics["orders"]["leftOut"] == {"min.insync.replicas": "there is one replica"}


def test_the_sources_are_opened_for_reading_only(disk: Path, tmp_path: Path) -> None:
    before = fingerprint([disk])
    revive(disk, "--into", tmp_path / "node")
    assert fingerprint([disk]) == before
    with kafkafs.open([tmp_path / "node"]) as store:
        assert [record.value for record in store["orders"][0].records()] == [b"%d" % n for n in range(RECORDS)]
    assert CliRunner().invoke(main, ["verify", str(tmp_path / "node")]).exit_code == 0


def test_paths_are_printed_without_going_up_again(disk: Path, tmp_path: Path) -> None:
    printed = revive(disk / ".." / "disk", "--into", disk / ".." / "node")
    assert ".." not in printed
    assert ".." not in (tmp_path / "node" / "revived.properties").read_text()


def test_the_name_of_a_directory_does_not_make_billions_of_partitions(disk: Path, tmp_path: Path) -> None:
    (disk / "orders-0").rename(disk / "orders-2147483646")
    arguments = ["revive", str(disk), "--into", str(tmp_path / "node"), "--plan"]
    refused = CliRunner().invoke(main, arguments)
    assert refused.exit_code == 3
    assert "partition 2147483646 of 'orders', and 2147483646 of those before it are in none" in refused.stderr
    assert CliRunner().invoke(main, [*arguments, "--topics", "customers"]).exit_code == 0


def test_several_log_directories_share_the_partitions(disk: Path, tmp_path: Path) -> None:
    revive(disk, "--into", f"{tmp_path / 'd1'},{tmp_path / 'd2'}")
    assert sum((tmp_path / log_dir / "orders-0").exists() for log_dir in ("d1", "d2")) == 1
    assert len({(tmp_path / log_dir / "meta.properties").read_text() for log_dir in ("d1", "d2")}) == 2
    revive(disk, "--into", f"{tmp_path / 'd3'},{tmp_path / 'd4'}", "--metadata-version", "3.6", status=2)


def test_a_partition_without_lower_ones_may_be_none(disk: Path) -> None:
    (disk / ".Trash-1000").mkdir()
    topics = planned(disk)
    (lone, *_) = topics[".Trash"]["notes"]
    assert lone.startswith("partition 1000 has no partitions below it: if .Trash-1000 is no directory of a broker's")
    assert not any("below it" in note for note in topics["orders"]["notes"])
    (disk / ".Trash-2").mkdir()
    assert not any("below it" in note for note in planned(disk)[".Trash"]["notes"])


@pytest.mark.parametrize("name", ["file", "orders-0"])
def test_only_an_empty_directory_is_filled(disk: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "node" / name).mkdir(parents=True)
    before = fingerprint([tmp_path])
    assert "an empty directory only" in revive(disk, "--into", tmp_path / "node", status=2)
    assert fingerprint([tmp_path]) == before


def test_a_run_with_other_options_does_not_go_on(disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patched:
        patched.setattr("kafkafs.revive.building.write_bootstrap", full)
        revive(disk, "--into", tmp_path / "node", status=3)
    assert "with other options" in revive(disk, "--topics", "orders", "--into", tmp_path / "node", status=3)
    revive(disk, "--into", tmp_path / "node")
    assert not list((tmp_path / "node").glob("kafkafs*"))


def test_links_are_made_of_closed_segments_alone(disk: Path, tmp_path: Path) -> None:
    with kafkafs.open([disk], write=True) as store:
        for _ in range(4):
            store["orders"][0].append_many({"value": os.urandom(100_000)} for _ in range(8))
    revive(disk, "--link", "--into", tmp_path / "node")
    *closed, active = sorted((tmp_path / "node" / "orders-0").glob("*.log"))
    assert closed
    assert [path.stat().st_nlink for path in closed] == [2] * len(closed)
    assert active.stat().st_nlink == 1
    assert {path.stat().st_nlink for path in (tmp_path / "node" / "orders-0").glob("*index")} == {1}


def test_deleted_and_stray_directories_count_when_asked_for(disk: Path) -> None:
    unique = "0123456789abcdef0123456789abcdef"
    (disk / "orders-0").rename(disk / f"orders-0.{unique}-delete")
    (disk / "customers-0").rename(disk / f"customers-0.{unique}-stray")
    revive(disk, "--into", "/nowhere/at-all", "--plan", status=1)
    assert list(planned(disk, "--undelete")) == ["orders"]
    assert list(planned(disk, "--include", "stray")) == ["customers"]


def test_segments_about_to_be_deleted_count_when_asked_for(disk: Path) -> None:
    with kafkafs.open([disk], write=True) as store:
        for _ in range(2):
            store["orders"][0].append_many({"value": os.urandom(100_000)} for _ in range(8))
    first = min((disk / "orders-0").glob("*.log"))
    first.rename(f"{first}.deleted")
    (without,) = planned(disk, "--topics", "orders")["orders"]["partitions"]
    (with_it,) = planned(disk, "--topics", "orders", "--undelete")["orders"]["partitions"]
    assert without["startOffset"] > with_it["startOffset"] == 0
    assert without["endOffset"] == with_it["endOffset"]


def test_of_two_topics_of_a_name_the_newest_is_revived(disk: Path, tmp_path: Path) -> None:
    with kafkafs.open([tmp_path / "later"], write=True) as store:
        store.create("orders")[0].append(b"later")
    (tmp_path / "later" / "meta.properties").unlink()
    topic = planned(disk, tmp_path / "later", "--topics", "orders")["orders"]
    assert "2 topics of this name are on the disks" in topic["notes"][0]
    assert topic["partitions"][0]["from"].startswith(str(tmp_path / "later"))


def test_a_deleted_topic_that_was_made_again_can_be_had(disk: Path, tmp_path: Path) -> None:
    with kafkafs.open([tmp_path / "later"], write=True) as store:
        store.create("orders")[0].append(b"later")
    deleted = "orders-0.0123456789abcdef0123456789abcdef-delete"
    (disk / "orders-0").rename(disk / deleted)
    shutil.copytree(tmp_path / "later" / "orders-0", disk / "orders-0")
    (disk / "replication-offset-checkpoint").write_text("0\n1\norders 0 1\n")
    note, left_out, *_ = planned(disk, "--undelete", "--topics", "orders")["orders"]["notes"]
    assert "move the directories of the others away" in note
    assert left_out.startswith(f"left out {disk / deleted}: offsets 0 to {RECORDS - 1} of the topic with the id ")
    (tmp_path / "alone").mkdir()
    shutil.copytree(disk / deleted, tmp_path / "alone" / deleted)
    (disk / "orders-0").rename(tmp_path / "orders-0")
    for found in (disk, tmp_path / "alone"):
        (partition,) = planned(found, "--undelete", "--topics", "orders")["orders"]["partitions"]
        assert partition["endOffset"] == RECORDS


def test_a_metadata_log_tells_settings_quotas_acls_and_users(datasets: Callable[[str], Path], tmp_path: Path) -> None:
    disks = [datasets("kafka-3.9") / "kafka-3.9" / log_dir for log_dir in ("d1", "d2")]
    topics = planned(*disks)
    assert {topic["settingsFrom"] for topic in topics.values()} == {"the metadata log"}
    assert topics["t-compact"]["settings"]["cleanup.policy"] == "compact"
    alone = tmp_path / "d1"
    shutil.copytree(disks[0], alone)
    (alone / "meta.properties").write_text("garbage")
    assert planned(alone, "--topics", "t-txn")["t-txn"]["settings"] == topics["t-txn"]["settings"]


def test_a_revived_store_keeps_its_settings_when_it_is_revived_before_its_broker_ran(
    datasets: Callable[[str], Path], tmp_path: Path
) -> None:
    disks = [datasets("kafka-3.9") / "kafka-3.9" / log_dir for log_dir in ("d1", "d2")]
    revive(*disks, "--into", tmp_path / "one")
    assert CliRunner().invoke(main, ["backup", str(tmp_path / "one"), str(tmp_path / "backups")]).exit_code == 0
    for source in (tmp_path / "one", tmp_path / "backups" / "latest"):
        topics = planned(source)
        assert {topic["settingsFrom"] for topic in topics.values()} == {"bootstrap.checkpoint"}
        first = planned(*disks)
        assert {name: each["settings"] for name, each in topics.items()} == {
            name: each["settings"] for name, each in first.items()
        }
        assert "revival before this one" in topics["t-compact"]["notes"][0]
    (tmp_path / "one" / "bootstrap.checkpoint").write_bytes(b"garbage")
    plan = json.loads(revive(tmp_path / "one", "--into", "/nowhere/at-all", "--plan", "--json"))
    assert any("bootstrap.checkpoint cannot be read" in note for note in plan["notes"])


def test_topics_that_were_not_chosen_are_not_said_to_be_missing(
    datasets: Callable[[str], Path], tmp_path: Path
) -> None:
    disks = [datasets("kafka-3.9") / "kafka-3.9" / log_dir for log_dir in ("d1", "d2")]
    chosen = ("--topics", "t-zstd", "--into", tmp_path / "node")
    printed = revive(*disks, *chosen)
    assert "no partition is here" not in printed
    assert "no disk has" not in printed
    assert "note: --topics leaves out __consumer_offsets, and with it all groups: name it too to revive them" in printed
    assert "note: --topics leaves out __consumer_offsets: there are no groups" in printed
    notes = json.loads(revive(*disks, *chosen[:2], "--into", "/nowhere/at-all", "--plan", "--json"))["notes"]
    assert any("--topics leaves out __transaction_state" in note for note in notes)
    with_groups = revive(*disks, "--topics", "t-zstd,__consumer_offsets", "--into", "/nowhere/at-all", "--plan")
    assert "leaves out __consumer_offsets" not in with_groups


def test_topics_are_said_to_be_absent_only_if_no_directory_is_there(
    datasets: Callable[[str], Path], tmp_path: Path
) -> None:
    for log_dir in ("d1", "d2"):
        shutil.copytree(datasets("kafka-3.9") / "kafka-3.9" / log_dir, tmp_path / log_dir)
    for number in (0, 1):
        (found,) = tmp_path.glob(f"d?/t-zstd-{number}")
        found.rename(f"{found}.0123456789abcdef0123456789abcdef-stray")
        for topic in ("t-gzip", "t-snappy"):
            (gone,) = tmp_path.glob(f"d?/{topic}-{number}")
            shutil.rmtree(gone)
    for log_dir in ("d1", "d2"):
        for checkpoint in OffsetCheckpoint:
            directory = Files().directory(tmp_path / log_dir)
            told = read_offsets(directory, checkpoint)
            kept = {partition: offset for partition, offset in told.items() if partition[0] != "t-gzip"}
            write_offsets(directory, checkpoint, kept)
    printed = revive(tmp_path / "d1", tmp_path / "d2", "--into", "/nowhere/at-all", "--plan", status=1).splitlines()
    assert "note: the metadata log has topics of which no partition is here: t-gzip" in printed
    for topic in ("t-snappy", "t-zstd"):
        at = printed.index(f"  {topic}-0: empty: no directory is taken in")
        assert printed[at + 1].endswith(", once replicated")
    assert any("note     the disks have the partitions 0, 1 of 2 only in directories" in line for line in printed)


def test_a_partition_that_is_left_out_is_not_said_to_be_on_no_disk(tmp_path: Path) -> None:
    with kafkafs.open([tmp_path / "more"], write=True) as store:
        store.create("wide", 4)
    (tmp_path / "more" / "wide-1").rename(tmp_path / "more" / "wide-1.0123456789abcdef0123456789abcdef-stray")
    shutil.rmtree(tmp_path / "more" / "wide-2")
    notes = planned(tmp_path / "more", "--topics", "wide")["wide"]["notes"]
    left_out = "the disks have the partitions 1 of 4 only in directories that are left out: they begin empty"
    assert notes == [
        "no disk has the partitions 2 of 4: they begin empty",
        f"{left_out}; --undelete and --include take in more",
    ]
    printed = revive(tmp_path / "more", "--into", "/nowhere/at-all", "--plan")
    assert "  wide-1: empty: no directory is taken in\n" in printed


def test_the_commands_for_a_running_cluster_are_a_script(disk: Path, tmp_path: Path) -> None:
    arguments = [str(disk), "--into", f"{tmp_path / 'a'},{tmp_path / 'it' / '..' / 'b c'}", "--commands"]
    result = CliRunner().invoke(main, ["revive", *arguments])
    assert result.exit_code == 0, result.stderr
    assert "start the broker with" in result.stderr
    checked = subprocess.run(["bash", "-n"], input=result.stdout, text=True, check=True, capture_output=True)
    assert checked.stderr == ""
    lines = result.stdout.splitlines()
    assert f"store='{tmp_path}/a,{tmp_path}/b c'" in lines
    (made,) = [shlex.split(line) for line in lines if line.startswith("kafka-topics.sh") and "orders" in line]
    for setting in ("retention.ms=-1", "min.insync.replicas=2", "message.timestamp.type=CreateTime"):
        assert made[made.index(setting) - 1] == "--config"
    program = result.stdout.partition("<<'END'\n")[2].partition("\nEND\n")[0]
    compile(program, "produce.py", "exec")
    assert not any(line.startswith("kafka-consumer-groups.sh") for line in lines), "there are no groups"
    revive(disk, "--into", tmp_path / "node", "--commands", "--plan", status=2)


def test_a_metadata_version_that_is_not_known_is_refused(disk: Path) -> None:
    printed = revive(disk, "--into", "/nowhere/at-all", "--plan", "--metadata-version", "2.8", status=2)
    assert "'2.8' is no metadata version that is known here: they go from 3.3-IV3 to" in printed


@pytest.mark.golden
@pytest.mark.parametrize(
    ("name", "options"),
    [("kafka-2.2", []), ("kafka-3.9", ["--until", "2023-01-01"]), ("kafka-3.9", ["--until", "1700003500000"])],
)
def test_segments_that_a_cleaner_has_emptied_are_no_damage(
    datasets: Callable[[str], Path], name: str, options: list[str]
) -> None:
    data_set = datasets(name) / name
    topics = planned(data_set / "d1", data_set / "d2", *options)
    partitions = [each for topic in topics.values() for each in topic["partitions"]]
    assert len(partitions) == 45
    assert [each for each in partitions if each.get("damaged")] == []
