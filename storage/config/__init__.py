"""The settings of topics and stores: their values, their defaults, and the source of each value.

The rest of storage reads `TopicConfig` and `StoreConfig`, which `resolve` makes of texts as settings files have them.
Every name, default and range is that of Kafka 3.9; each setting notes what Kafka 4 changed, or that it is new there.
This room reads no files: `storage.properties` makes mappings of brokers' settings files.
"""

from __future__ import annotations

from storage.config.broker_settings import BROKER_SETTINGS
from storage.config.config_lines import parse_config_lines, parse_settings
from storage.config.setting import BrokerKey, Setting
from storage.config.sources import Sources
from storage.config.store_config import StoreConfig
from storage.config.topic_config import TopicConfig
from storage.config.topic_settings import TOPIC_SETTINGS, check_topic_setting

__all__ = [
    "BROKER_SETTINGS",
    "TOPIC_SETTINGS",
    "BrokerKey",
    "Setting",
    "Sources",
    "StoreConfig",
    "TopicConfig",
    "check_topic_setting",
    "parse_config_lines",
    "parse_settings",
]
