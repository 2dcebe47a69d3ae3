"""The plan of a revival, and its outcome, in sentences and as JSON."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from kafkafs.revive.holding import is_unknown, release_command
from kafkafs.revive.plan import COUNTED
from kafkafs.revive.properties import BOOTSTRAP
from kafkafs.revive.records import carried_features
from storage.ids import format_id
from storage.internal import offsets as committed_offsets
from storage.log_dir import BROKERS_OWN, DirectoryName
from storage.offset_text import offsets_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkafs.revive.outcome import Outcome
    from kafkafs.revive.plan import PartitionPlan, Plan, TopicPlan
    from storage.replicas import Composition, Replica


def plan_lines(plan: Plan, level: int) -> Iterator[str]:
    """Yield the plan for people: each topic, each partition of which there is something to say, and the totals."""
    for topic in plan.topics:
        yield from _topic_lines(topic)
    yield from (f"note: {note}" for note in plan.notes)
    yield from _not_chosen_lines(plan)
    yield from _cluster_lines(plan, level)
    missing = sum(each.missing for each in plan.partitions)
    lost = f", {_counted(missing, 'offset')} below the high watermark on no disk" if missing else ""
    gaps = sum(len(each.composition.gaps) for each in plan.partitions if each.composition is not None)
    damage = f", {gaps} damaged on all disks" if gaps else ""
    own = sum(each.composition.lost for each in plan.partitions if each.composition is not None)
    other = f", {_counted(own, 'offset')} lost that a replica has with a history of its own" if own else ""
    size = f"{plan.size_bytes / 1e6:.1f} MB"
    counts = f"{_counted(len(plan.topics), 'topic')}, {_counted(len(plan.partitions), 'partition')}"
    yield f"{counts}, {size}{lost}{damage}{other}"


def _topic_lines(topic: TopicPlan) -> Iterator[str]:
    topic_id = "a new id" if topic.topic_id is None else f"id {format_id(topic.topic_id)}"
    settings = "settings unknown" if is_unknown(topic.known) else f"settings from {topic.known.origin}"
    yield f"{topic.name}: {_counted(len(topic.partitions), 'partition')}, {topic_id}, {settings}"
    yield from (f"  note     {note}" for note in topic.notes)
    for key, reason in topic.held.left_out.items():
        yield f"  left out {key}: {reason}"
    for partition in topic.partitions:
        yield from _partition_lines(partition)


def _partition_lines(plan: PartitionPlan) -> Iterator[str]:
    composition, name = plan.composition, DirectoryName(*plan.partition)
    if composition is None:
        yield f"  {name}: empty: no directory is taken in"
        yield from _missing_lines(plan)
        return
    yield f"  {name}: {offsets_text(plan.start_offset, plan.end_offset)} from {composition.chosen.directory}"
    for source in plan.sources:
        if source.replica is not composition.chosen:
            yield f"    not from {source.candidate.directory}: {_why_not(composition, source.replica)}"
    for offsets, replica in composition.filled:
        yield f"    filled   {offsets_text(*offsets)} from {replica.directory}"
    for offsets, reason in composition.gaps:
        is_known = offsets.end > offsets.begin
        place = offsets_text(*offsets) if is_known else f"from offset {offsets.begin} on"
        has_others = any(each.begin < offsets.end and offsets.begin < each.end for each, _ in composition.divergences)
        where = "on every disk with this history" if has_others else "on every disk"
        yield f"    damaged  {place}, {where}: {reason}"
    for offsets, replica in composition.divergences:
        which = "it" if offsets.end - offsets.begin == 1 else "them"
        yield f"    lost     {offsets_text(*offsets)} as {replica.directory} has {which}"
    yield from _missing_lines(plan)
    if plan.remote is not None:
        yield f"    remote   {offsets_text(*plan.remote)}, in remote storage only"
    late = composition.chosen.late_offset
    if late is not None:
        yield f"    cut      at offset {plan.end_offset}, before the batch of the first later record"


def _missing_lines(plan: PartitionPlan) -> Iterator[str]:
    if plan.missing:
        yield f"    missing  {offsets_text(*plan.missing_offsets)}, once replicated"


def _why_not(composition: Composition, other: Replica) -> str:
    chosen = composition.chosen
    if other.last_epoch < chosen.last_epoch:
        return f"its last batch is of leader epoch {other.last_epoch}, not {chosen.last_epoch}"
    parted = [offsets.begin for offsets, replica in composition.divergences if replica is other]
    if parted:
        return f"it has a history of its own from offset {parted[0]} on"
    if other.end_offset < chosen.end_offset:
        return f"it ends at offset {other.end_offset}"
    if other.damages:
        return f"it is damaged: {other.damages[0].reason} ({other.damages[0].name})"
    if other.base_offset != chosen.base_offset:
        return f"it begins at offset {other.base_offset}, not {chosen.base_offset}"
    return "it is the same" if other.digests == chosen.digests else "it has the same history"


def _not_chosen_lines(plan: Plan) -> Iterator[str]:
    for topic, keys in COUNTED.items():
        if topic in plan.not_chosen:
            yield f"note: --topics leaves out {topic}, and with it all {keys}: name it too to revive them"


def _cluster_lines(plan: Plan, level: int) -> Iterator[str]:
    image, origin = plan.cluster.image, plan.cluster.origin
    if not plan.cluster.is_known:
        yield (
            "note: there is no metadata log on these disks: the cluster's quotas, ACLs, users and features are "
            "unknown, and so are topics without a partition here"
        )
        return
    yield (
        f"from {origin}: {_counted(sum(map(len, image.quotas.values())), 'quota')}, "
        f"{_counted(len(image.acls), 'ACL')}, credentials of {_counted(len(image.secrets), 'user')}"
    )
    left_out = carried_features(plan, level)[1]
    if left_out:
        yield f"note: the features {', '.join(left_out)} need a newer --metadata-version, and are left out"
    if image.tokens:
        yield f"note: {_counted(len(image.tokens), 'delegation token')} left out: create new ones"
    planned = {topic.name for topic in plan.topics}
    absent = sorted(image.topic_ids.keys() - plan.on_disk - planned)
    if absent:
        yield f"note: {origin} has topics of which no partition is here: {', '.join(absent)}"
    passed_over = sorted(image.topic_ids.keys() & plan.on_disk - plan.not_chosen - planned)
    if passed_over:
        yield (
            f"note: {origin} has topics of which these disks have only directories that --undelete or --include "
            f"takes in: {', '.join(passed_over)}"
        )


def release_lines(plan: Plan) -> Iterator[str]:
    """Yield the commands that release each topic, with what to know first."""
    for topic in plan.topics:
        if topic.name in BROKERS_OWN:
            continue  # brokers compact these, which the properties file holds up
        if is_unknown(topic.known):
            yield f"# the settings of {topic.name} are unknown: set those that it had first; Kafka's defaults delete"
        yield release_command(topic.name, topic.held, BOOTSTRAP)


def outcome_lines(outcome: Outcome, plan: Plan) -> Iterator[str]:
    """Yield what is in the result: groups, offsets beyond an end, open transactions and what ends them."""
    if outcome.has_groups:
        yield _counted(outcome.groups, "group")
    else:
        yield f"note: {_why_no_groups(plan)}: there are no groups"
    for ahead in outcome.ahead:
        name = DirectoryName(*ahead.partition)
        where = f"offset {ahead.offset} of {name}, which ends at {ahead.end_offset}"
        yield f"note: group {ahead.group} has committed {where}"
    for each in outcome.open_transactions:
        coordinated = each.coordinated
        if coordinated is not None and coordinated.is_open:
            yield (
                f"open transaction of {coordinated.transactional_id}, producer {each.producer_id}: "
                f"{coordinated.state_name}; the broker ends it once its time is over"
            )
            continue
        yield f"open transaction of producer {each.producer_id}, which no coordinator here knows; to end it:"
        for part in each.in_partitions:
            words = ["kafka-transactions.sh", "--bootstrap-server", BOOTSTRAP, "abort", "--topic", part.topic]
            words += ["--partition", str(part.partition), "--start-offset", str(part.first_offset)]
            yield f"  {shlex.join(words)}"
    yield from (f"note: {shortcoming}" for shortcoming in outcome.shortcomings)


def _why_no_groups(plan: Plan) -> str:
    if committed_offsets.TOPIC in plan.not_chosen:
        return f"--topics leaves out {committed_offsets.TOPIC}"
    if committed_offsets.TOPIC in plan.on_disk:
        return f"the disks have {committed_offsets.TOPIC} only in directories that --undelete or --include takes in"
    return f"no disk has {committed_offsets.TOPIC}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def plan_object(plan: Plan, level: int) -> dict[str, Any]:
    """Return the plan as JSON values."""
    return {
        "topics": [_topic_object(topic) for topic in plan.topics],
        "notes": [*plan.notes, *_not_chosen_lines(plan), *_cluster_lines(plan, level)],
        "bytes": plan.size_bytes,
    }


def _topic_object(topic: TopicPlan) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "topicId": None if topic.topic_id is None else format_id(topic.topic_id),
        "settingsFrom": topic.known.origin,
        "settings": dict(topic.held.settings),
        "leftOut": dict(topic.held.left_out),
        "release": release_command(topic.name, topic.held, BOOTSTRAP),
        "notes": list(topic.notes),
        "partitions": [_partition_object(each) for each in topic.partitions],
    }


def _partition_object(plan: PartitionPlan) -> dict[str, Any]:
    composition = plan.composition
    found: dict[str, Any] = {
        "partition": plan.partition[1],
        "startOffset": plan.start_offset,
        "endOffset": plan.end_offset,
        "highWatermark": plan.high_watermark,
        "missing": plan.missing,
        "bytes": plan.size_bytes,
        "from": None if composition is None else str(composition.chosen.directory),
    }
    if composition is None:
        return found
    return {
        **found,
        "others": [
            {"path": str(each.candidate.directory), "reason": _why_not(composition, each.replica)}
            for each in plan.sources
            if each.replica is not composition.chosen
        ],
        "filled": [[*offsets, str(replica.directory)] for offsets, replica in composition.filled],
        "damaged": [[*offsets, reason] for offsets, reason in composition.gaps],
        "lost": [[*offsets, str(replica.directory)] for offsets, replica in composition.divergences],
        "remote": plan.remote,
    }
