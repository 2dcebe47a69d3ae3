"""The account of a salvaged partition in sentences: the last offset that one names is in the range."""

from __future__ import annotations

from typing import Any

import pytest

from kafkafs.salvage.account import account_lines


def account(**more: Any) -> dict[str, Any]:
    found = {"topic": "t", "partition": 0, "source": "/a/t-0", "salvaged": "/out/t-0", "startOffset": 0}
    counts = {"endOffset": 0, "batches": 0, "segments": 0, "bytes": 0}
    lists: dict[str, Any] = {key: [] for key in ("lost", "damage", "unsummed", "leaderEpochs", "notes")}
    return {**found, **counts, **lists, **more}


@pytest.mark.parametrize(
    ("start", "end", "batches", "text"),
    [
        (0, 1500, 2, "offsets 0 to 1499, 2 batches"),
        (7, 8, 1, "offset 7, 1 batch"),
        (12, 12, 0, "no records (the next offset is 12), 0 batches"),
    ],
)
def test_what_is_in_the_partition(start: int, end: int, batches: int, text: str) -> None:
    lines = list(account_lines(account(startOffset=start, endOffset=end, batches=batches)))
    assert lines[-2] == f"salvaged t/0 into /out/t-0: {text}, 0.0 MB, verified"


def test_what_is_lost() -> None:
    lost = [{"offset": 0, "endOffset": 1000}, {"offset": 7, "endOffset": 8}, {"offset": 12, "endOffset": None}]
    assert list(account_lines(account(lost=lost)))[:3] == [
        "lost: offsets 0 to 999",
        "lost: offset 7",
        "lost: offsets from 12 on, if there were any",
    ]


def test_what_came_without_a_checksum() -> None:
    batch = {"segment": "0.log", "position": 61, "endPosition": 90, "hasChecksum": False}
    many = {"offset": 0, "lastOffset": 415, "records": 416, "declaredRecords": 1000}
    one = {"offset": 7, "lastOffset": 7, "records": 1, "declaredRecords": 1}
    at = "of the broken batch at 61 of 0.log; nothing vouches for them"
    assert list(account_lines(account(unsummed=[batch | many, batch | one])))[:2] == [
        f"even so: offsets 0 to 415, 416 of 1000 records {at}",
        f"even so: offset 7, 1 record {at}",
    ]
