"""`mount.kafkafs`: what mount(8) runs for an entry of fstab, or for `mount -t kafkafs STORE MOUNTPOINT`."""

from __future__ import annotations

from pathlib import Path

import click

from kafkafs.cli.failures import reported
from kafkafs.cli.mount import mount_in_background
from kafkafs.cli.store_argument import store_argument
from kafkafs.mount.options import parse_options


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@store_argument
@click.argument("mount_point", metavar="MOUNTPOINT", type=click.Path(path_type=Path))
@click.option("-o", "texts", multiple=True, metavar="OPTION[,OPTION]...", help="As `kafkafs mount` has them.")
@click.option("-f", "is_trial", is_flag=True, help="Look at the options, and mount nothing.")
@click.option("-s", "-n", "-v", is_flag=True, expose_value=False, help="As mount(8) gives them; they mean nothing.")
@click.option("-t", "-N", expose_value=False, help="As mount(8) gives them; they mean nothing.")
def mount_kafkafs(*, store: tuple[Path, ...], mount_point: Path, texts: tuple[str, ...], is_trial: bool) -> None:
    """Mount STORE at MOUNTPOINT, for mount(8)."""
    parse_options(texts)
    if not is_trial:
        mount_in_background(store, mount_point, texts)


def main() -> None:
    """Run it as a program."""
    with reported():
        mount_kafkafs(prog_name="mount.kafkafs")


if __name__ == "__main__":
    main()
