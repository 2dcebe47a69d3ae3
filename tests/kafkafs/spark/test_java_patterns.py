"""The option `subscribePattern`: what Java and Python understand alike is taken, and all else is refused by name.

What is taken is compared with Java's own answers in tests/spark/test_batch_queries.py.
"""

from __future__ import annotations

import pytest

from kafkafs.spark.errors import OptionError
from kafkafs.spark.java_patterns import compile_pattern


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        (r"\p{Lower}+", r"\p{Lower}"),
        (r"[\p{Alpha}]", r"\p{Alpha}"),
        (r"\Qa.b\E", r"\Q"),
        ("[a-z&&[^t]]", "&&"),
        ("[a[bc]]", "[ in a class"),
        ("[]a]", "] in a class"),
        ("[a--b]", "--"),
        ("(?<name>a)", "(?<name>"),
        ("(?P<name>a)", "(?P<name>"),
        ("(?x)a", "(?x)"),
        ("a(?i)b", "(?i)"),
        (r"\R", r"\R"),
        (r"\v", r"\v"),
        (r"(a)\1", r"\1"),
        (r"\0141", r"\0141"),
        (r"\x{61}", r"\x{61}"),
        ("a{,2}", "{"),
        ("\\", "\\"),
    ],
)
def test_what_means_something_else_in_python_is_refused_by_its_name(pattern: str, named: str) -> None:
    with pytest.raises(OptionError) as raised:
        compile_pattern(pattern)
    assert str(raised.value).startswith(f"the option subscribePattern has {named}, which kafkafs does not match as ")


@pytest.mark.parametrize("pattern", ["(", "a**", "[a", "*", "(?<=a+)b", "[b-a]"])
def test_what_is_no_expression_is_refused(pattern: str) -> None:
    with pytest.raises(OptionError, match="is no regular expression that kafkafs knows"):
        compile_pattern(pattern)


def test_the_rest_is_taken() -> None:
    found = compile_pattern(r"(?i)^(?:ord|\u006fdd)[\w.-]{2,}+(?!x)\x73?$")
    assert [name for name in ("orders", "ODD.topic-1", "other", "or") if found.search(name)] == [
        "orders",
        "ODD.topic-1",
    ]
