"""Settings: what a topic and a store may be told, what holds where nothing is said, and where it was said.

`TopicConfig` and `StoreConfig` are what the rest of storage reads; both are made by `resolve` from texts as they
stand in settings files. Every name, default and range is that of Kafka 3.9, and what Kafka 4 changed is noted with
the setting. Nothing here touches a file: `storage.properties` makes mappings of brokers' settings files.
"""

from __future__ import annotations

from storage.config.broker_settings import BROKER_SETTINGS
from storage.config.config_lines import parse_config_lines
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
]
