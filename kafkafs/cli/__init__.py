"""The command line.

`main` knows the names of the commands and where each is; a command's module is imported when the command runs or when
the help lists it. Exit codes are in `failures`, one table for all commands.
"""

from __future__ import annotations

import click

from kafkafs.cli.command_table import CommandTable

__all__ = ["main"]

main = CommandTable(
    modules={
        "cat": "kafkafs.cli.cat",
        "compact": "kafkafs.cli.compact",
        "demo": "kafkafs.cli.demo",
        "dump": "kafkafs.cli.dump",
        "groups": "kafkafs.cli.groups",
        "help": "kafkafs.cli.help",
        "ls": "kafkafs.cli.ls",
        "append": "kafkafs.cli.append",
        "mount": "kafkafs.cli.mount",
        "recover": "kafkafs.cli.recover",
        "retention": "kafkafs.cli.retention",
        "spark": "kafkafs.cli.spark",
        "stats": "kafkafs.cli.stats",
        "topics": "kafkafs.cli.topics",
        "umount": "kafkafs.cli.umount",
        "verify": "kafkafs.cli.verify",
        "warm": "kafkafs.cli.warm",
    },
    name="kafkafs",
    help="A Kafka log as files: look into a broker's log directories without a broker.",
    epilog="Example: kafkafs dump /var/lib/kafka/orders-0/00000000000000000000.log",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
click.version_option(package_name="kafkafs", message="%(prog)s %(version)s")(main)
