"""The intact batches of a damaged partition in a new directory, with an account of what is lost.

source   the partition to be salvaged, wherever it stands in its store
making   the new directory, made whole or not at all, and verified
account  what is in it, what is lost and why, what is not as it was: JSON, and sentences
"""

from __future__ import annotations

from kafkafs.salvage.account import Account, account_lines
from kafkafs.salvage.making import salvage
from kafkafs.salvage.source import Source, find_source

__all__ = ["Account", "Source", "account_lines", "find_source", "salvage"]
