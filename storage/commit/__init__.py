"""Commits: staged records get into a store's logs once and whole, even after a crash."""

from __future__ import annotations

from storage.commit.applied import Transaction
from storage.commit.commits import discard, give_up
from storage.commit.ledger import LEDGER_NAME, Ledger
from storage.commit.staged_file import StagedFile

__all__ = [
    "LEDGER_NAME",
    "Ledger",
    "StagedFile",
    "Transaction",
    "discard",
    "give_up",
]
