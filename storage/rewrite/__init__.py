"""Whole stores written from others, partition by partition and by many processes: compacted, rewritten or staged."""

from storage.rewrite.compacted_copy import copy_compacted
from storage.rewrite.log_pieces import LogPiece, pieces_of
from storage.rewrite.rewritten_copy import RewriteRules, RewrittenPiece, copy_rewritten, rewrite_piece
from storage.rewrite.staged_copy import copy_staged
from storage.rewrite.store_builder import ATTEMPT_SUFFIX, StoreBuilder
from storage.rewrite.topics import built_topics

__all__ = [
    "ATTEMPT_SUFFIX",
    "LogPiece",
    "RewriteRules",
    "RewrittenPiece",
    "StoreBuilder",
    "built_topics",
    "copy_compacted",
    "copy_rewritten",
    "copy_staged",
    "pieces_of",
    "rewrite_piece",
]
