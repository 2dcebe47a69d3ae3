"""The commands that bring revived topics into a cluster that runs, for those who cannot start a broker beside it.

They are a script for Bash, with Kafka's tools, kafkafs, and a producer in Python: of Kafka's own tools none gives
records their times and partitions. Records get offsets of their own there, as the cluster says at each, and committed
offsets become those of the same records.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from kafkafs.revive.holding import hold_in_cluster, is_unknown, release_words
from kafkafs.revive.properties import BOOTSTRAP
from storage.log_dir import BROKERS_OWN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from kafkafs.revive.plan import Plan, TopicPlan

_HEAD: Final = """\
#!/usr/bin/env bash
# Makes the topics {topics} in a running cluster of Kafka 3.6 or later.
# It needs Kafka's tools, kafkafs, and Python with aiokafka, and writes into the current directory.
# Records of aborted and of open transactions are left out. Records without a time get the present one.
set -euo pipefail
cluster={cluster}
store={store}
"""
_PRODUCER: Final = """\
cat > produce.py <<'END'
import asyncio, base64, collections, csv, functools, json, sys
from aiokafka import AIOKafkaProducer

cluster, groups, target, *topics = sys.argv[1:]

def data(holder, field):
    encoded, text = holder.get(field + "_base64"), holder.get(field)
    if encoded is not None:
        return base64.b64decode(encoded)
    return None if text is None else text.encode()

rows = [row for row in json.load(open(groups)) if row["committedOffset"] is not None and row["topic"] in topics]
committed = collections.defaultdict(set)
for row in rows:
    committed[row["topic"], row["partition"]].add(row["committedOffset"])
waiting = {place: collections.deque(sorted(offsets)) for place, offsets in committed.items()}
mapped, ends, failures = {}, {}, []

def acknowledged(place, offset, sent):
    if sent.exception() is not None:
        failures.append(sent.exception())
        return
    left = waiting.get(place, ())
    while left and left[0] <= offset:
        mapped[place, left.popleft()] = sent.result().offset
    ends[place] = sent.result().offset + 1

async def produce():
    async with AIOKafkaProducer(
        bootstrap_servers=cluster, enable_idempotence=True, linger_ms=20, max_batch_size=2**18, max_request_size=2**30
    ) as producer:
        for line in sys.stdin:
            record = json.loads(line)
            place, time_ms = (record["topic"], record["partition"]), record["timestamp"]
            headers = [(header["key"], data(header, "value")) for header in record["headers"]]
            sent = await producer.send(
                place[0], data(record, "value"), data(record, "key"), place[1],
                None if time_ms < 0 else time_ms, headers,
            )
            sent.add_done_callback(functools.partial(acknowledged, place, record["offset"]))
            if failures:
                break
        await producer.flush()

asyncio.run(produce())
if failures:
    sys.exit(f"not everything is there: delete the topics, and begin again: {failures[0]}")
several = len({row["group"] for row in rows}) > 1
with open(target, "w", newline="") as file:
    for row in rows:
        place = row["topic"], row["partition"]
        offset = mapped.get((place, row["committedOffset"]), ends.get(place, 0))
        csv.writer(file, lineterminator="\\n").writerow([row["group"]] * several + [*place, offset])
END
"""


def command_lines(plan: Plan, log_dirs: Sequence[Path], groups: Mapping[str, AbstractSet[str]]) -> Iterator[str]:
    """Yield the script; `groups` have the topics in which each has committed offsets."""
    topics = [each for each in plan.topics if each.name not in BROKERS_OWN]
    names = [each.name for each in topics]
    store = shlex.quote(",".join(map(str, log_dirs)))
    yield from _HEAD.format(topics=", ".join(names), cluster=BOOTSTRAP, store=store).splitlines()
    for topic in topics:
        yield from _creation(topic)
    yield from _PRODUCER.splitlines()
    paths = shlex.join(f"{name}/*/records.jsonl" for name in names)
    yield 'kafkafs groups "$store" --json > groups.json'
    yield f'kafkafs cat "$store" {paths} --isolation read_committed |'
    yield f'  python3 produce.py "$cluster" groups.json offsets.csv {shlex.join(names)}'
    chosen = [group for group, committed in sorted(groups.items()) if not committed.isdisjoint(names)]
    if chosen:
        words = shlex.join(word for group in chosen for word in ("--group", group))
        yield f"{_tool('consumer-groups')} {words} --reset-offsets --from-file offsets.csv --execute"
    yield "# Once you have looked at the topics, these commands give them their own settings:"
    for topic in topics:
        yield f"# {_tool('configs')} {shlex.join(release_words(topic.name, hold_in_cluster(topic.known)))}"


def _creation(topic: TopicPlan) -> Iterator[str]:
    held = hold_in_cluster(topic.known)
    if is_unknown(topic.known):
        yield f"# The settings of {topic.name} are unknown: add those that it had."
    for key, reason in held.left_out.items():
        yield f"# {topic.name} had {key}, which is left out: {reason}."
    settings = (word for key, value in held.settings.items() for word in ("--config", f"{key}={value}"))
    words = ["--create", "--topic", topic.name, "--partitions", str(len(topic.partitions)), *settings]
    yield f"{_tool('topics')} {shlex.join(words)}"


def _tool(name: str) -> str:
    return f'kafka-{name}.sh --bootstrap-server "$cluster"'
