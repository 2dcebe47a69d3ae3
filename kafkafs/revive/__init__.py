"""From the log directories of dead brokers to those of one node, with which a fresh KRaft broker starts.

    disks       the log directories, as far as they can be read
    known       the old cluster by its metadata log, and the settings of its topics
    plan        what comes from which disk and why, what is lost, what is not known
    holding     the settings that keep a topic's records until it is released
    records     the records of the metadata log with which the new cluster begins
    properties  the settings with which the broker starts
    refusals    where the new log directories may not lie, and where nothing is linked
    building    the plan carried out, resumed after an interruption
    outcome     the groups and transactions in the result
    text        the plan and the result in sentences
    commands    a script that brings the topics into a running cluster instead

A plan reads every batch of every replica, and nothing is written but the new directories.
"""

from __future__ import annotations

from kafkafs.revive.building import Making, Until, begun_until, prepare_target, revive
from kafkafs.revive.commands import command_lines
from kafkafs.revive.disks import Disk, directories_of, read_disks
from kafkafs.revive.known import Cluster, read_cluster
from kafkafs.revive.outcome import Outcome, committing_groups, look
from kafkafs.revive.plan import Choice, Plan, make_plan, with_groups
from kafkafs.revive.properties import PROPERTIES_NAME, owner_command, start_command
from kafkafs.revive.records import chosen_level
from kafkafs.revive.refusals import check_apart, unlinked
from kafkafs.revive.text import outcome_lines, plan_lines, plan_object, release_lines

__all__ = [
    "PROPERTIES_NAME",
    "Choice",
    "Cluster",
    "Disk",
    "Making",
    "Outcome",
    "Plan",
    "Until",
    "begun_until",
    "check_apart",
    "chosen_level",
    "command_lines",
    "committing_groups",
    "directories_of",
    "look",
    "make_plan",
    "outcome_lines",
    "owner_command",
    "plan_lines",
    "plan_object",
    "prepare_target",
    "read_cluster",
    "read_disks",
    "release_lines",
    "revive",
    "start_command",
    "unlinked",
    "with_groups",
]
