"""What is known of a log apart from its records, a file for each kind of knowledge."""

from __future__ import annotations

from kafkafs.tree.epochs_file import EpochsFile
from kafkafs.tree.info_file import InfoFile
from kafkafs.tree.producers_file import ProducersFile
from kafkafs.tree.transactions_file import TransactionsFile

__all__ = ["EpochsFile", "InfoFile", "ProducersFile", "TransactionsFile"]
