"""The text written into a topic's `config` file: settings to change, among lines that only report values."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from storage.config.sources import BROKER, DEFAULT, UNKNOWN
from storage.config.topic_settings import check_topic_setting, topic_setting
from storage.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_UNSET: Final = "default"
# Comments on values that the topic itself does not have: writing a copied file must not give them to it.
_ORIGIN: Final = re.compile(rf"\s*({DEFAULT}|{BROKER}(,.*)?|{UNKNOWN}(:.*)?)\s*")


def parse_config_lines(text: str) -> Mapping[str, str | None]:
    """Return the settings that the lines change, with their values as Kafka prints them, or None to unset one.

    A line is `key=value`, or `key=default` to unset; what follows a `#` is a comment. A line whose comment says, as
    `TopicConfig.lines` does, that the value is the `default`, the `broker`'s or `unknown` changes nothing. Of several
    lines for a key the last one holds. Raises `ConfigError` if any line is malformed; the caller then uses none.
    """
    changes: dict[str, str | None] = {}
    for number, line in enumerate(text.split("\n"), 1):
        content, _, comment = line.partition("#")
        if not content.strip() or _ORIGIN.fullmatch(comment):
            continue
        try:
            key, value = _change(content.strip())
        except ConfigError as error:
            raise ConfigError(f"line {number}: {error.reason}") from None
        changes[key] = value
    return changes


def parse_settings(settings: Iterable[str]) -> Mapping[str, str | None]:
    """Return the settings that words of a command change, each of the form `key=value` or `key=default`.

    Raises `ConfigError` if any is malformed.
    """
    return dict(map(_change, settings))


def _change(content: str) -> tuple[str, str | None]:
    key, equals, value = (part.strip() for part in content.partition("="))
    if not equals:
        raise ConfigError(f"{content!r} is not of the form key=value")
    if value == _UNSET:
        return topic_setting(key).key, None
    return key, check_topic_setting(key, value)
