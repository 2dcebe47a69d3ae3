"""The images of records of `__consumer_offsets`, `__transaction_state` and `__share_group_state`."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from storage.internal import offsets, shares
from storage.internal.groups_image import GroupKind, GroupsImage
from storage.internal.shares_image import SharesImage, ShareStart
from storage.internal.transactions_image import TransactionsImage

TYPES = {offsets.definitions(number)[0].name.removesuffix("Key"): number for number in (*range(1, 18), *range(19, 24))}


class Replayed(GroupsImage):
    """Takes records as they come out of their bytes."""

    def take(self, name: str, key: dict[str, Any], value: dict[str, Any] | None, producer_id: int | None = None) -> int:
        offset = self.end_offset
        number = TYPES[name]
        version = offsets.definitions(number)[1].newest_version
        data = None if value is None else offsets.encode_value(number, version, value)
        read = offsets.decode(offsets.encode_key(number, key), data)
        fields = None if read.value is None else read.value.fields
        self.apply(read.key.name.removesuffix("Key"), read.key.fields, fields, offset, producer_id)
        return offset

    def commit(self, offset: int | None, group: str = "g", producer_id: int | None = None) -> int:
        key = {"group": group, "topic": "orders", "partition": 1}
        return self.take("OffsetCommit", key, None if offset is None else {"offset": offset}, producer_id)

    def committed(self, group: str = "g") -> int | None:
        known = self.groups.get(group)
        found = None if known is None else known.offsets.get(("orders", 1))
        return None if found is None else found.offset


def test_the_last_commit_holds_until_its_tombstone() -> None:
    image = Replayed()
    image.commit(1)
    image.commit(2)
    assert (image.committed(), image.groups["g"].kind) == (2, GroupKind.CLASSIC)
    image.commit(None)
    assert image.groups == {}
    assert image.end_offset == 3


def test_a_group_id_may_be_any_bytes() -> None:
    image = Replayed()
    image.commit(1, group="g\udcff")
    assert image.committed("g\udcff") == 1


def test_a_commit_in_a_transaction_counts_when_that_commits() -> None:
    image = Replayed()
    image.commit(1)
    image.commit(5, producer_id=7)
    image.commit(9, producer_id=8)
    assert image.committed() == 1
    image.end_transaction(7, 3, is_commit=True)
    assert image.committed() == 5
    image.end_transaction(8, 4, is_commit=False)
    image.end_transaction(9, 5, is_commit=True)
    assert (image.committed(), image.groups["g"].pending) == (5, {})


def test_a_plain_commit_after_the_one_in_a_transaction_stays() -> None:
    image = Replayed()
    image.commit(5, producer_id=7)
    image.commit(3)
    image.end_transaction(7, 2, is_commit=True)
    assert image.committed() == 3


def test_a_tombstone_takes_what_is_pending_too() -> None:
    image = Replayed()
    image.commit(5, producer_id=7)
    image.commit(None)
    image.end_transaction(7, 2, is_commit=True)
    assert image.groups == {}


def test_an_aborted_commit_leaves_no_group() -> None:
    image = Replayed()
    image.commit(5, producer_id=7)
    assert list(image.groups) == ["g"]
    image.end_transaction(7, 1, is_commit=False)
    assert image.groups == {}


def test_each_kind_is_known_by_its_records() -> None:
    image = Replayed()
    image.take("GroupMetadata", {"group": "a"}, {"protocolType": "consumer"})
    image.take("ConsumerGroupMetadata", {"groupId": "b"}, {"epoch": 1})
    image.take("ShareGroupMemberMetadata", {"groupId": "c", "memberId": "m"}, {"clientId": "x", "clientHost": "/h"})
    image.take("StreamsGroupMetadata", {"groupId": "d"}, {"epoch": 1})
    kinds = {group_id: group.kind.value for group_id, group in image.groups.items()}
    assert kinds == {"a": "Classic", "b": "Consumer", "c": "Share", "d": "Streams"}
    assert image.groups["c"].values("ShareGroupMemberMetadata")["m",]["clientId"] == "x"
    image.take("ShareGroupMemberMetadata", {"groupId": "c", "memberId": "other"}, None)
    assert "c" in image.groups
    image.take("ShareGroupMemberMetadata", {"groupId": "c", "memberId": "m"}, None)
    image.take("GroupMetadata", {"group": "a"}, None)
    assert list(image.groups) == ["b", "d"]


def test_a_transactional_id_is_what_its_last_record_says() -> None:
    image = TransactionsImage()
    value: dict[str, Any] = {
        "producerId": 4,
        "producerEpoch": 2,
        "transactionStatus": 1,
        "transactionTimeoutMs": 60_000,
        "transactionPartitions": [{"topic": "orders", "partitionIds": [0, 2]}],
        "transactionLastUpdateTimestampMs": 10,
        "transactionStartTimestampMs": 9,
    }
    image.apply({"transactionalId": "t"}, value, 0)
    known = image.ids["t"]
    assert (known.state_name, known.is_open, tuple(known.partitions)) == (
        "Ongoing",
        True,
        (("orders", 0), ("orders", 2)),
    )
    image.apply({"transactionalId": "t"}, value | {"transactionStatus": 4, "transactionPartitions": None}, 1)
    known = image.ids["t"]
    assert (known.state_name, known.is_open, tuple(known.partitions)) == ("CompleteCommit", False, ())
    image.apply({"transactionalId": "t"}, value | {"transactionStatus": 99}, 2)
    assert image.ids["t"].state_name == "unknown (99)"
    image.apply({"transactionalId": "t"}, None, 3)
    assert (image.ids, image.end_offset) == ({}, 4)


def test_a_share_group_is_where_its_snapshot_and_updates_say() -> None:
    image = SharesImage()
    partition = {"groupId": "g", "topicId": UUID(int=7), "partition": 1}

    def take(record_type: int, value: dict[str, Any] | None) -> ShareStart | None:
        data = None if value is None else shares.encode_value(record_type, 0, value)
        read = shares.decode(shares.encode_key(record_type, partition), data)
        fields = None if read.value is None else read.value.fields
        image.apply(read.key.name.removesuffix("Key"), read.key.fields, fields, image.end_offset)
        return image.starts.get(("g", UUID(int=7), 1))

    assert take(shares.SHARE_SNAPSHOT_TYPE, {"startOffset": -1}) == (-1, -1)
    assert take(shares.SHARE_UPDATE_TYPE, {"startOffset": 4, "deliveryCompleteCount": 3}) == (4, 3)
    assert take(shares.SHARE_UPDATE_TYPE, {"startOffset": -1, "deliveryCompleteCount": 5}) == (4, 5)
    assert take(shares.SHARE_SNAPSHOT_TYPE, {"startOffset": 9, "deliveryCompleteCount": 0}) == (9, 0)
    assert take(shares.SHARE_SNAPSHOT_TYPE, None) is None
    assert take(shares.SHARE_UPDATE_TYPE, {"startOffset": 2, "deliveryCompleteCount": 0}) == (2, 0)
    assert image.end_offset == 6
