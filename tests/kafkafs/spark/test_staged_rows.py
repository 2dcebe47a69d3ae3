"""Rows of Arrow that cannot be records are refused in plain words; where Spark's own sink has a null pointer, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from staged_stores import StagedStore

from kafkafs.spark.errors import RowError
from storage.store.store import Mode

if TYPE_CHECKING:
    from collections.abc import Callable

pa = pytest.importorskip("pyarrow", reason="not run: pyarrow is not installed")

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.fixture
def staged() -> Callable[[dict[str, Any]], list[Any]]:
    """Stage one row for the topic `t`, and return the headers of the record that comes of it."""
    from kafkafs.spark.staged_rows import StagedRows

    def stage(row: dict[str, Any]) -> list[Any]:
        made = StagedStore()
        made.create({"t": 1})
        schema = pa.schema([("topic", pa.string()), ("value", pa.binary()), ("headers", HEADERS)])
        with made.open(Mode.READ_ONLY) as store, made.staging(store) as staging:
            StagedRows(staging, None, made.clock).add(pa.RecordBatch.from_pylist([row], schema=schema))
            staged = staging.finish()
        assert staged is not None
        made.commit([staged.name])
        with made.open(Mode.READ_ONLY) as store:
            return [list(record.headers) for batch in store.log("t", 0).view.batches(0) for record in batch.records()]

    return stage


def test_null_headers_and_null_values_of_headers_are_what_kafka_has(staged: Callable) -> None:
    assert staged({"topic": "t", "value": b"v", "headers": None}) == [[]]
    assert staged({"topic": "t", "value": b"v", "headers": [{"key": "h", "value": None}]}) == [[("h", None)]]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"topic": "t", "headers": [None]}, "a header is null, and a record's headers have names"),
        ({"topic": "t", "headers": [{"key": None, "value": b"x"}]}, "a header has null for its key, and a record's"),
        ({"topic": None}, "null topic present in the data. Use the topic option for setting a default topic."),
    ],
)
def test_what_no_record_can_have_is_refused(row: dict[str, Any], said: str, staged: Callable) -> None:
    with pytest.raises(RowError) as raised:
        staged(row)
    assert str(raised.value).startswith(said)
