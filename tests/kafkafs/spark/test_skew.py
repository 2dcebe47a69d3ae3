"""From counts to the rows that say how even they are."""

from __future__ import annotations

from kafkafs.spark.jobs.skew import SCHEMA, KeyLoad, PartitionLoad, balance_rows


def test_partitions_are_weighed_against_their_mean_and_keys_shown_as_the_envelope_has_them() -> None:
    loads = [PartitionLoad(0, 30, 300, 100), PartitionLoad(1, 10, 100, 50), PartitionLoad(2, 0, 0, 0)]
    keys = [KeyLoad(None, 20, 0, 200), KeyLoad(b"\xff", 10, 3, 40), KeyLoad("\u65e5".encode(), 5, 0, 50)]
    rows = list(balance_rows("orders", loads, keys))
    assert all(list(row) == SCHEMA.names for row in rows)
    assert [row["kind"] for row in rows] == ["topic", *["partition"] * 3, *["key"] * 3]
    topic, first, _, empty, null, binary, text = rows
    assert (topic["records"], topic["bytes"], topic["dataBytes"], topic["ratio"], topic["bytesRatio"]) == (
        40,
        150,
        400,
        2.25,
        2.0,
    )
    assert (first["partition"], first["share"], first["dataShare"], first["ratio"]) == (0, 0.75, 0.75, 2.25)
    assert (empty["share"], empty["ratio"]) == (0.0, 0.0)
    assert (null["key"], null["key_base64"], null["share"], null["dataShare"]) == (None, None, 0.5, 0.5)
    assert (binary["key"], binary["key_base64"], binary["records"], binary["recordsOver"]) == (None, "/w==", 10, 3)
    assert (text["key"], text["key_base64"]) == ("\u65e5", None)
    (nothing, _) = balance_rows("empty", [PartitionLoad(0, 0, 0, 0)], [])
    assert (nothing["ratio"], nothing["bytesRatio"]) == (None, None)
