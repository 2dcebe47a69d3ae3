"""Commits: what was staged for a store comes into its logs once and whole, whatever happens."""

from __future__ import annotations

from storage.commit.commits import discard
from storage.commit.ledger import Ledger, Transaction
from storage.commit.staged_file import StagedFile

__all__ = [
    "Ledger",
    "StagedFile",
    "Transaction",
    "discard",
]
