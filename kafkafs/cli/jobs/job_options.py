"""The options of every Spark job: `--master` and `--conf`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Command = TypeVar("Command", bound="Callable[..., Any]")

MASTER: Final = "spark.master"
REMOTE: Final = "spark.remote"
_CHOSEN: Final = f"{__name__}.settings"
_REMOTE_FRONT: Final = "sc://"
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"  # in the environment of what spark-submit has started
_QUIET: Final = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}


def job_options(command: Command) -> Command:
    """Give a command the options; `chosen_settings` has what they say."""
    conf = click.option(
        "--conf",
        multiple=True,
        metavar="NAME=VALUE",
        expose_value=False,
        callback=_set_each,
        help="A setting of Spark's; may be given several times.",
    )
    master = click.option(
        "--master",
        metavar="URL",
        expose_value=False,
        callback=_set_master,
        help="Where Spark runs, as spark-submit takes it, or sc://HOST:PORT for Spark Connect; by default local[*], "
        "or where spark-submit says.",
    )
    return master(conf(command))


def is_submitted() -> bool:
    """True if spark-submit has started this, so that its options hold."""
    return _SUBMITTED in os.environ


def chosen_settings(ctx: click.Context) -> dict[str, str]:
    """Return the settings for Spark: those that were given, and a command's defaults for the others."""
    given: dict[str, str] = ctx.meta.get(_CHOSEN, {})
    if is_submitted():
        return dict(given)
    defaults = _QUIET if REMOTE in given else {MASTER: "local[*]", **_QUIET}
    return {**defaults, **given}


def _set_each(ctx: click.Context, parameter: click.Parameter, texts: Sequence[str]) -> None:
    settings = ctx.meta.setdefault(_CHOSEN, {})
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.startswith("spark."):
            raise click.BadParameter(f"{text!r} is not of the form spark.NAME=VALUE", ctx, parameter)
        settings[name] = value


def _set_master(ctx: click.Context, _: click.Parameter, url: str | None) -> None:
    if url is not None:
        ctx.meta.setdefault(_CHOSEN, {})[REMOTE if url.startswith(_REMOTE_FRONT) else MASTER] = url
