"""Removing records from logs: retention and compaction, each planned first and then applied."""

from __future__ import annotations

from storage.cleanup.cleaner import Cleaner
from storage.cleanup.compaction_plan import CompactionPlan, Verdict
from storage.cleanup.compaction_planning import COMPACTION_SETTINGS, plan_compaction
from storage.cleanup.compaction_report import CompactionReport
from storage.cleanup.pace import CleanerLimits
from storage.cleanup.retention import plan_retention
from storage.cleanup.retention_plan import RetainedSegment, RetentionPlan, Scope

__all__ = [
    "COMPACTION_SETTINGS",
    "Cleaner",
    "CleanerLimits",
    "CompactionPlan",
    "CompactionReport",
    "RetainedSegment",
    "RetentionPlan",
    "Scope",
    "Verdict",
    "plan_compaction",
    "plan_retention",
]
