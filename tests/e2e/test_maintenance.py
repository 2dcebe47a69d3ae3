"""A mount keeps its store in order while it is used: on schedule, logged, and without disturbing readers."""

from __future__ import annotations

import base64
import json
import re
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mounts import Mounted

pytestmark = pytest.mark.e2e

# A broker's schedules, with seconds for minutes.
OFTEN = """\
log.initial.task.delay.ms=0
log.retention.check.interval.ms=100
log.cleaner.backoff.ms=100
log.segment.delete.delay.ms=200
"""
SMALL = "segment.bytes=2000 segment.index.bytes=120"
COMPACTED = f"{SMALL} cleanup.policy=compact min.cleanable.dirty.ratio=1 file.delete.delay.ms=60000"
GAIN = re.compile(r"^(\d+) bytes become (\d+) .*, (\d+) records become (\d+); .* before offset (\d+)$", re.MULTILINE)
JOBS = ("removal", "flush", "checkpoints", "retention", "producers", "compaction")


@pytest.fixture
def often(tmp_path: Path) -> str:
    """Give the option that has maintenance done all the time."""
    path = tmp_path / "server.properties"
    path.write_text(OFTEN)
    return f"server_properties={path}"


def metrics(mounted: Mounted) -> dict[str, float]:
    text = mounted.run("cat .kafkafs/metrics").stdout
    return {name: float(value) for name, value in re.findall(r"^(kafkafs_\S+) (\S+)$", text, re.MULTILINE)}


def runs(mounted: Mounted) -> set[str]:
    """Which jobs there are."""
    names = (re.fullmatch(r'kafkafs_maintenance_runs_total\{job="(\w+)"\}', name) for name in metrics(mounted))
    return {found[1] for found in names if found}


def make(mounted: Mounted, topic: str, settings: str) -> None:
    done = mounted.run(f"mkdir {topic} && printf '%s\\n' {settings} >> {topic}/config")
    assert (done.returncode, done.stderr) == (0, "")


def write(mounted: Mounted, topic: str, count: int) -> None:
    """Append records of 100 bytes, one a batch, whose keys repeat after three."""
    script = f"for i in $(seq {count}); do printf '%d\\t%0100d\\n' $((i % 3)) $i >> {topic}/0/append.kv; done"
    assert mounted.run(script).stderr == ""


def said(mounted: Mounted, pattern: str) -> bool:
    return re.search(pattern, mounted.run("cat .kafkafs/log").stdout) is not None


@contextmanager
def reader_of(mounted: Mounted, path: str, filtered: str = "") -> Iterator[Callable[[], str]]:
    """Have a file open meanwhile; what is given reads it to its end."""
    with mounted.started(f"exec 3< {path}; echo open; read -r; cat <&3{filtered}") as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "open\n"

        def rest() -> str:
            text, _ = reader.communicate("\n", timeout=20)
            assert reader.returncode == 0
            return text

        yield rest


def test_what_expires_is_deleted_and_who_reads_it_goes_on(
    store_mounts: Callable[..., Mounted], tmp_path: Path, often: str
) -> None:
    store = tmp_path / "store"
    mounted = store_mounts(store, "-o", often)
    make(mounted, "t", SMALL)
    write(mounted, "t", 60)
    assert mounted.run("cat t/0/retention.plan").stdout.startswith("t-0: nothing is to be deleted of ")
    oldest = store / "t-0" / f"{0:020}.log"
    with reader_of(mounted, f"t/0/segments/{oldest.name}", " | base64") as rest:
        encoded = base64.encodebytes(oldest.read_bytes()).decode()
        assert mounted.run("echo retention.bytes=4000 >> t/config").returncode == 0
        mounted.until(lambda: not oldest.exists() and not any((store / "t-0").glob("*.deleted")))
        assert rest() == encoded
    assert said(mounted, r"INFO t-0: retention deleted \d+ segments, \d+ bytes; the log begins at offset \d+")
    mounted.until(lambda: mounted.run("ls t/0/offset/0").returncode != 0)
    start = int(mounted.run("cat t/0/log-start-offset").stdout)
    assert start > 0
    records = mounted.run("cat t/0/records.jsonl").stdout.splitlines()
    assert [json.loads(line)["offset"] for line in records] == list(range(start, 60))
    found = metrics(mounted)
    assert found["kafkafs_retention_deleted_segments_total"] > 0
    assert found["kafkafs_retention_deleted_bytes_total"] > 0
    assert found['kafkafs_maintenance_failures_total{job="retention"}'] == 0
    assert mounted.end() == 0
    assert "ERROR" not in mounted.said()
    assert "Traceback" not in mounted.said()


def test_a_log_is_compacted_and_who_reads_it_goes_on(
    store_mounts: Callable[..., Mounted], tmp_path: Path, often: str
) -> None:
    store = tmp_path / "store"
    mounted = store_mounts(store, "-o", often)
    make(mounted, "t", COMPACTED)
    write(mounted, "t", 120)
    planned = mounted.run("cat t/0/compaction.plan").stdout
    assert planned.startswith("t-0: the log is not compacted yet: ")
    gain = GAIN.search(planned)
    assert gain is not None, planned
    before_bytes, after_bytes, _, kept, first_dirty = map(int, gain.groups())
    oldest = store / "t-0" / f"{0:020}.log"
    encoded = base64.encodebytes(oldest.read_bytes()).decode()
    with (
        reader_of(mounted, "t/0/offset/all") as rest,
        reader_of(mounted, f"t/0/segments/{oldest.name}", " | base64") as rest_of_file,
    ):
        assert mounted.run("echo min.cleanable.dirty.ratio=0.01 >> t/config").returncode == 0
        mounted.until(lambda: said(mounted, "t-0: compaction made "))
        assert any((store / "t-0").glob("*.deleted"))
        assert rest() == "".join(f"{number:0100}\n" for number in range(1, 121))
        assert rest_of_file() == encoded
    line = rf"INFO t-0: compaction made {after_bytes} bytes out of {before_bytes}; the log is clean before offset"
    assert said(mounted, f"{line} {first_dirty}\n")
    found = metrics(mounted)
    assert found["kafkafs_compactions_total"] == 1
    assert found["kafkafs_compaction_read_bytes_total"] == before_bytes
    assert found["kafkafs_compaction_freed_bytes_total"] == before_bytes - after_bytes
    assert found["kafkafs_uncleanable_logs"] == 0
    records = [json.loads(line) for line in mounted.run("cat t/0/records.jsonl").stdout.splitlines()]
    assert sum(record["offset"] < first_dirty for record in records) == kept
    latest = {record["key"]: int(record["value"]) for record in records}
    assert latest == {"0": 120, "1": 118, "2": 119}
    mounted.until(
        lambda: mounted.run("cat t/0/compaction.plan").stdout.startswith("t-0: there is nothing to compact before ")
    )
    assert mounted.end() == 0
    assert "ERROR" not in mounted.said()


def test_it_is_on_for_a_store_of_ours_unless_it_is_turned_off(
    store_mounts: Callable[..., Mounted], tmp_path: Path, often: str
) -> None:
    store = tmp_path / "store"
    mounted = store_mounts(store)
    assert runs(mounted) == set(JOBS)
    make(mounted, "t", f"{SMALL} retention.bytes=0")
    write(mounted, "t", 30)
    assert mounted.end() == 0
    before = sorted(path.name for path in (store / "t-0").iterdir())
    for number, options in enumerate((f"{often},maintenance=off", f"{often},ro", f"{often},ro,maintenance=on")):
        mounted = store_mounts(store, "-o", options, at=f"still{number}")
        assert runs(mounted) == set()
        assert mounted.run("cat t/0/retention.plan").stdout.startswith("t-0: ")
        assert mounted.end() == 0
        assert sorted(path.name for path in (store / "t-0").iterdir()) == before
    mounted = store_mounts(store, "-o", f"{often},maintenance=on", at="last")
    mounted.until(lambda: said(mounted, "t-0: retention deleted "))


@pytest.fixture
def broker(datasets: Callable[[str], Path], tmp_path: Path) -> Path:
    """Give a copy of a log dir that a broker wrote."""
    path = tmp_path / "broker"
    shutil.copytree(datasets("kafka-3.9") / "kafka-3.9" / "d2", path)
    return path


def logs(path: Path) -> dict[str, bytes]:
    return {str(log.relative_to(path)): log.read_bytes() for log in sorted(path.rglob("*.log"))}


@pytest.mark.golden
def test_a_brokers_store_is_kept_on_request_and_only_what_is_known_of_it(
    store_mounts: Callable[..., Mounted], broker: Path, often: str
) -> None:
    before = logs(broker)
    mounted = store_mounts(broker, "-o", f"rw,{often}")
    assert runs(mounted) == set()
    assert mounted.end() == 0
    mounted = store_mounts(broker, "-o", f"rw,maintenance=on,{often}", at="second")
    mounted.until(lambda: metrics(mounted)['kafkafs_maintenance_runs_total{job="retention"}'] > 3)
    mounted.until(lambda: metrics(mounted)['kafkafs_maintenance_runs_total{job="compaction"}'] > 3)
    assert logs(broker) == before
    said_of = {line.partition("-0:")[0] for line in mounted.run("cat */0/retention.plan").stdout.splitlines()}
    assert said_of == {log.partition("-0/")[0] for log in before if log.partition("-0/")[1]}
    unknown = "because the topic's settings are unknown: cleanup.policy.* unknown: the metadata log is not here"
    assert mounted.run(f'cat */0/*.plan | grep -vc "{unknown}"').stdout == "0\n"
    # Once its policy is said, it is known: the broker has it delete what is old, and this is of 2023.
    assert mounted.run("echo cleanup.policy=delete >> t-retain/config").returncode == 0
    mounted.until(lambda: said(mounted, "INFO t-retain-0: retention deleted "))
    after = logs(broker)
    changed = {name for name in before if after.get(name) != before[name]}
    assert changed
    assert all(name.startswith("t-retain-0/") for name in changed)
    assert mounted.end() == 0


def test_settings_of_a_broker_are_shown_where_a_topic_says_nothing(
    store_mounts: Callable[..., Mounted], tmp_path: Path, often: str
) -> None:
    with (tmp_path / "server.properties").open("a") as file:
        file.write("log.retention.hours=1\nlog.retention.minutes=30\nlog.roll.hours=2\n")
    mounted = store_mounts(tmp_path / "store", "-o", often)
    make(mounted, "t", "segment.ms=60000")
    shown = mounted.run("cat t/config").stdout.splitlines()
    assert f"retention.ms={30 * 60_000}  # broker" in shown
    assert "segment.ms=60000  # topic" in shown
    assert "file.delete.delay.ms=200  # broker" in shown
    assert mounted.run(f"grep '^{often}$' .kafkafs/options").returncode == 0
    assert mounted.end() == 0


def test_plans_are_in_every_partition(store_mounts: Callable[..., Mounted], tmp_path: Path) -> None:
    mounted = store_mounts(tmp_path / "store", "-o", "default_partitions=2")
    make(mounted, "plain", SMALL)
    make(mounted, "compacted", COMPACTED)
    write(mounted, "compacted", 30)
    done = mounted.run("for p in */[0-9]; do cat $p/retention.plan $p/compaction.plan || exit; done")
    assert (done.returncode, done.stderr) == (0, "")
    heads = [line for line in done.stdout.splitlines() if re.match(r"\w+-\d: ", line)]
    assert [line.partition(":")[0] for line in heads] == [
        f"{topic}-{partition}" for topic in ("compacted", "plain") for partition in (0, 1) for _ in range(2)
    ]
    assert mounted.run(f"cp compacted/0/compaction.plan {tmp_path}/copied").stderr == ""
    assert (tmp_path / "copied").read_text() == mounted.run("cat compacted/0/compaction.plan").stdout
    assert " bytes become " in (tmp_path / "copied").read_text()
    assert mounted.run("echo x > plain/0/retention.plan").returncode != 0
