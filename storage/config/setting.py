"""One setting: its name, its kind of value, its default, and the broker's settings that stand in for a topic's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic

from storage.config.kinds import T, ValueKind
from storage.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

_SHOWN_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class BrokerKey(Generic[T]):
    """A broker's setting that holds where the setting itself is not given; without a kind it is read like that one."""

    key: str
    kind: ValueKind[T] | None = None


@dataclass(frozen=True, slots=True)
class Setting(Generic[T]):
    """A setting as Kafka 3.9 has it, or the first release that has it.

    `broker_keys` are in order of precedence. `attribute` is the name under which `TopicConfig` or `StoreConfig` has
    the value, and `since_4` says what Kafka 4 does otherwise, after the release that began to; empty if nothing.
    """

    key: str
    kind: ValueKind[T]
    default: T
    description: str
    broker_keys: tuple[BrokerKey[T], ...] = ()
    since_4: str = ""
    renamed: str = ""

    @property
    def attribute(self) -> str:
        """The key in snake case, unless its unit has to move to the end."""
        return self.renamed or self.key.replace(".", "_")

    def read(self, text: str) -> T:
        """Return the value of a text; raises `ConfigError` if it is not allowed."""
        return _read(self.key, self.kind, text)

    def write(self, value: T) -> str:
        """The text of a value, as Kafka prints it."""
        return self.kind.write(value)

    def broker_values(self, broker: Mapping[str, str]) -> list[T]:
        """The values that a broker's settings give it, the one that holds first; all of them must be allowed."""
        return [
            _read(source.key, source.kind or self.kind, broker[source.key])
            for source in self.broker_keys
            if source.key in broker
        ]


def _read(key: str, kind: ValueKind[T], text: str) -> T:
    try:
        return kind.read(text.strip())
    except ValueError:
        # A value may be long, or half a character, which no message can have.
        shown = text[:_SHOWN_MAX].encode(errors="backslashreplace").decode()
        raise ConfigError(f"{key}={shown} is refused: it must be {kind.allowed}") from None
