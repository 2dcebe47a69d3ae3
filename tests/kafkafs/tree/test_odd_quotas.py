"""Quotas that no client sets: the lines are JSON all the same, and an entity is what a broker makes of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kafkafs.tree.cluster_rows import ROWS, cells
from kafkafs.tree.cluster_views import json_lines
from storage.internal import ClusterImage

if TYPE_CHECKING:
    from typing import NoReturn


def image_of(value: float, *entity: tuple[str, str | None]) -> ClusterImage:
    image = ClusterImage()
    parts = [{"entityType": kind, "entityName": name} for kind, name in entity]
    image.apply("ClientQuotaRecord", {"entity": parts, "key": "rate", "value": value, "remove": False}, 0)
    return image


def refuse(constant: str) -> NoReturn:
    raise AssertionError(constant)


@pytest.mark.parametrize(("value", "shown"), [("nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity"), ("2.5", 2.5)])
def test_a_value_that_is_no_number_of_json_is_text(value: str, shown: object) -> None:
    rows = list(ROWS["quotas"](image_of(float(value), ("user", "u"))))
    (line,) = json_lines(rows).splitlines()
    assert json.loads(line, parse_constant=refuse) == {"entity": {"user": "u"}, "quota": "rate", "value": shown}
    assert cells("quotas", rows[0]) == ["user=u", "rate", shown]


def test_of_several_parts_of_one_type_the_last_counts_as_in_a_broker() -> None:
    image = image_of(1.0, ("user", "a"), ("client-id", None), ("user", "b"))
    assert image.quotas == {(("client-id", None), ("user", "b")): {"rate": 1.0}}
