"""The views of a log that are not made of records."""

from __future__ import annotations

from kafkafs.tree.epochs_file import EpochsFile
from kafkafs.tree.info_file import InfoFile
from kafkafs.tree.producers_file import ProducersFile
from kafkafs.tree.transactions_file import TransactionsFile

__all__ = ["EpochsFile", "InfoFile", "ProducersFile", "TransactionsFile"]
