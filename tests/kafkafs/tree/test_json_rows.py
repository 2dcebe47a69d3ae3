"""Rows are JSON lines, of which no step of Python's encoder is long."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafs.tree import json_rows
from kafkafs.tree.cluster_rows import cells, topic_rows
from kafkafs.tree.json_rows import json_lines
from storage.internal.cluster_image import ClusterImage

if TYPE_CHECKING:
    from collections.abc import Sequence

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(max_size=3), inner, max_size=9),
    max_leaves=15,
)


@given(st.lists(st.dictionaries(st.text(max_size=3), VALUES, max_size=9), max_size=4))
def test_cut_rows_are_as_uncut_ones(rows: list[dict[str, Any]]) -> None:
    whole = "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_rows, "_ITEMS_AT_ONCE", 3)
        assert json_lines(rows) == whole


def test_few_items_are_encoded_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    dumps = json.dumps

    def noted(value: object, **options: Any) -> str:
        found = dumps(value, **options)
        sizes.append(len(found))
        return found

    monkeypatch.setattr(json, "dumps", noted)
    image, topic_id = ClusterImage(), uuid4()
    image.apply("TopicRecord", {"name": "large", "topicId": topic_id}, 0)
    fields = {"leader": 1, "leaderEpoch": 0, "replicas": [1, 2], "directories": [topic_id]}
    image.topics[topic_id].partitions.update(dict.fromkeys(range(20_000), fields))
    (row,) = map(json.loads, json_lines(topic_rows(image)).splitlines())
    assert [each["partition"] for each in row["partitions"]] == list(range(20_000))
    assert max(sizes) < 100_000
    (shown,) = topic_rows(image)
    assert cells("topics", shown)[2:4] == [20_000, 2]
    partitions: Sequence[dict[str, Any]] = shown["partitions"]
    assert partitions[-1]["partition"] == 19_999
