"""Topics may be called what Kafka lets them be called, and nothing that its metrics could not tell apart."""

from __future__ import annotations

import pytest

from storage.errors import InvalidTopicError, TopicExistsError
from storage.log_dir.names import check_new_topic, is_topic_name

LEGAL = ["a", "A-b_c.9", "-", "...", "__consumer_offsets", "x" * 249, "t-0", "0"]
ILLEGAL = ["", ".", "..", "x" * 250, "a/b", "a b", "é", "a\n", "a:b", "٣"]


@pytest.mark.parametrize("name", LEGAL)
def test_legal(name: str) -> None:
    assert is_topic_name(name)
    check_new_topic(name, ["other"])


@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal(name: str) -> None:
    assert not is_topic_name(name)
    with pytest.raises(InvalidTopicError, match="cannot be the name of a topic"):
        check_new_topic(name, [])


@pytest.mark.parametrize(("name", "other"), [("a.b", "a_b"), ("a_b", "a.b"), ("a._", "a_."), ("..b", "__b")])
def test_collisions(name: str, other: str) -> None:
    with pytest.raises(TopicExistsError, match=f"^{name} collides with the topic {other}: "):
        check_new_topic(name, ["x", other])


def test_the_same_name() -> None:
    with pytest.raises(TopicExistsError, match=r"^there is a topic a already$"):
        check_new_topic("a", ["a"])
