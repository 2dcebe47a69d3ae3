"""A real Kafka reads all of the demo's store, its consumer groups included, and finds nothing wrong with it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from real_brokers import releases

from kafkafs.demo.demo_store import make_demo_store
from kafkafs.dump.log_dump import LogDump, Selection
from kafkafs.dump.text import TextForm
from storage.clock import Clock
from storage.files import Files
from storage.log.view import Isolation
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from pathlib import Path

    from real_brokers import RealKafka

DECODED = re.compile(r"^\| offset: \d+ .* key: (\{.*?\}\}) payload: (.*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demo") / "store"
    assert make_demo_store(path, files=Files(), clock=Clock())
    return path


def ours(path: Path) -> str:
    with Files().open_reading(path) as file:
        lines = [line.decode() for run in LogDump(file, TextForm(), Selection()) for line in run]
    return "".join(f"{line}\n" for line in lines)


def test_the_real_tool_prints_it_as_we_do(real_kafka: RealKafka, demo: Path) -> None:
    paths = sorted(path for path in demo.glob("*/*.log") if not path.parent.name.startswith("__"))
    assert real_kafka.dump(*paths) == "".join(map(ours, paths))
    for kind in ("index", "timeindex"):
        indexes = sorted(demo.glob(f"*/*.{kind}"))
        said = real_kafka.dump(*indexes, options=["--index-sanity-check"]).splitlines()
        assert all(re.search(r"^Dumping | (passed sanity check|is empty)\.$", line) for line in said)
        assert len(said) == 2 * len(indexes) > 0


@pytest.mark.parametrize("version", releases("3.9"))
def test_a_broker_adopts_it(real_kafka: RealKafka, demo: Path, version: str) -> None:
    directories = sorted(path for path in demo.iterdir() if path.is_dir() and not path.name.startswith("__"))
    judged = real_kafka.judge_all(directories, version=version, clean=True)
    with Store.open([demo], mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as store:
        for directory in directories:
            topic, _, number = directory.name.rpartition("-")
            view = store.log(topic, int(number)).view
            found = judged[directory.name]
            assert found.broker_log == []
            assert (found.end_offset, found.last_stable_offset) == (view.end_offset, view.bound(Isolation.COMMITTED))
            records = [
                (record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
                for batch in view.batches(0)
                if not batch.is_control
                for record in batch.records()
            ]
            assert [(*each[:2], *each[3:6]) for each in found.read_uncommitted] == records
            assert len(found.read_committed) < len(records) or topic != "payments"


@pytest.mark.parametrize("version", ["3.9", "4"])
def test_its_groups_are_decoded(real_kafka: RealKafka, demo: Path, version: str) -> None:
    (log,) = demo.glob("__consumer_offsets-0/*.log")
    said = real_kafka.dump(log, options=["--offsets-decoder"], version=version)
    last = {key: json.loads(value) for key, value in DECODED.findall(said) if value != "<DELETE>"}
    gone = {key for key, value in DECODED.findall(said) if value == "<DELETE>"}
    offsets: dict[str, dict[tuple[str, int], int]] = {}
    for text, value in last.items():
        key = json.loads(text)["data"]
        if "topic" in key:
            offsets.setdefault(key["group"], {})[key["topic"], key["partition"]] = value["data"]["offset"]
        elif text not in gone:
            (member,) = value["data"]["members"]
            (assigned,) = member["assignment"]["assignedPartitions"]
            assert member["subscription"]["topics"] == [assigned["topic"] if "topic" in assigned else assigned["name"]]
    with Store.open([demo], mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as store:
        ends = {
            each: store.log(*each).view.end_offset
            for topic in ("orders", "clicks", "customers")
            for each in [(topic, number) for number in store.topics.partitions(topic)]
        }
    assert offsets["billing"] == {each: end for each, end in ends.items() if each[0] == "orders"}
    assert offsets["statistics"] == {each: end * 6 // 10 for each, end in ends.items() if each[0] == "clicks"}
    assert {json.loads(key)["data"]["group"] for key in gone} == {"newsletter"}
