"""The options that say which records are looked for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kafkafs.find.query import Query, ValuePattern
from kafkafs.locator.errors import BadNameError
from kafkafs.locator.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkafs.locator.times import Time

Command = TypeVar("Command", bound="Callable[..., Any]")

_GIVEN: Final = f"{__name__}.given"
_GREP: Final = (
    "Records in whose value this regular expression of Python matches: in its text if it is UTF-8, else in its bytes."
)
_SIZE: Final = click.IntRange(min=0)
_OPTIONS: Final[tuple[tuple[tuple[str, ...], dict[str, Any]], ...]] = (
    (("--key",), {"metavar": "K", "help": "Records with this key."}),
    (("--null-key",), {"is_flag": True, "help": "Records without a key."}),
    (("--header",), {"metavar": "N[=V]", "help": "Records with a header of this name, and of this value if given."}),
    (("--grep",), {"metavar": "RE", "help": _GREP}),
    (("-i", "--ignore-case"), {"is_flag": True, "help": "Match --grep without regard to case."}),
    (("--null-value",), {"is_flag": True, "help": "Records with a null value, which are tombstones."}),
    (("--min-bytes",), {"type": _SIZE, "metavar": "N", "help": "Records with a value of N bytes or more."}),
    (("--max-bytes",), {"type": _SIZE, "metavar": "N", "help": "Records with a value of N bytes or fewer, no null."}),
    (("--producer",), {"type": int, "metavar": "ID", "help": "Records of the producer with this id."}),
    (("--transactional",), {"is_flag": True, "help": "Records of transactions."}),
)

_EXCLUDING: Final = (
    ("key", "null_key"),
    ("null_value", "grep"),
    ("null_value", "min_bytes"),
    ("null_value", "max_bytes"),
)


def query_options(command: Command) -> Command:
    """Give a command all of these options; `chosen_query` returns what they say."""
    for names, attributes in reversed(_OPTIONS):
        command = click.option(*names, expose_value=False, callback=_note, **attributes)(command)
    return command


def _note(ctx: click.Context, parameter: click.Parameter, value: object) -> None:
    ctx.meta.setdefault(_GIVEN, {})[parameter.name] = value


def chosen_query(ctx: click.Context) -> Query:
    """Return what is looked for; raises `click.UsageError` if options contradict each other."""
    given: dict[str, Any] = ctx.meta[_GIVEN]
    for one, other in _EXCLUDING:
        if all(given[name] is not None and given[name] is not False for name in (one, other)):
            options = " and ".join(f"--{name.replace('_', '-')}" for name in (one, other))
            raise click.UsageError(f"{options} exclude each other.", ctx)
    key = () if given["key"] is None else (_bytes(given["key"]),)
    name, has_value, value = (given["header"] or "").partition("=")
    unlimited = Query()
    least = given["min_bytes"]
    if least is None:
        least = -1 if given["max_bytes"] is None else 0
    most = unlimited.value_bytes_max if given["max_bytes"] is None else given["max_bytes"]
    return Query(
        key=(None,) if given["null_key"] else key,
        header_name=_bytes(name) if given["header"] is not None else None,
        header_value=(_bytes(value),) if has_value else (),
        value_bytes_min=least,
        value_bytes_max=-1 if given["null_value"] else most,
        producer_id=given["producer"],
        of_transactions=given["transactional"],
        pattern=_pattern(given["grep"], ignores_case=given["ignore_case"]),
    )


def _pattern(text: str | None, *, ignores_case: bool) -> ValuePattern | None:
    if text is None:
        return None
    try:
        return ValuePattern.of(text, ignores_case=ignores_case)
    except (re.error, ValueError) as error:
        raise click.BadParameter(f"{text!r} is no regular expression: {error}", param_hint="--grep") from None


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def chosen_time(_: click.Context, parameter: click.Parameter, value: str | None) -> Time | None:
    """Return the time that an option means, as the names in `by-time/` have it."""
    try:
        return None if value is None else parse_time(value)
    except BadNameError as error:
        raise click.BadParameter(str(error), param=parameter) from None
