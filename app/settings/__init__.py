"""config.toml in the home <-> typed settings, with the reason for each limit beside it.

Below everything but the domain: reads and writes that one file, knows no ledger, no broker and no secret.
"""

from app.settings.errors import ConfigError
from app.settings.files import (
    config_path,
    create_home,
    home_folder,
    load_or_create,
    read_text,
    write_private,
)
from app.settings.ids import check_source_ids, with_source_ids
from app.settings.model import (
    BROKERS,
    FORMATS,
    TEST_SOURCE,
    Account,
    BrokerKind,
    CashSizing,
    DriftTolerance,
    EquitySizing,
    Execution,
    Listener,
    Notice,
    QuantitySizing,
    Quiet,
    Reconciliation,
    Retention,
    Risk,
    Settings,
    SignalSizing,
    Sizing,
    Source,
    Symbols,
    System,
    Tunnel,
    Updates,
)
from app.settings.read import read_settings
from app.settings.resources import resource
from app.settings.text import default_text
from app.settings.words import parse_duration

__all__ = [
    "BROKERS",
    "FORMATS",
    "TEST_SOURCE",
    "Account",
    "BrokerKind",
    "CashSizing",
    "ConfigError",
    "DriftTolerance",
    "EquitySizing",
    "Execution",
    "Listener",
    "Notice",
    "QuantitySizing",
    "Quiet",
    "Reconciliation",
    "Retention",
    "Risk",
    "Settings",
    "SignalSizing",
    "Sizing",
    "Source",
    "Symbols",
    "System",
    "Tunnel",
    "Updates",
    "check_source_ids",
    "config_path",
    "create_home",
    "default_text",
    "home_folder",
    "load_or_create",
    "parse_duration",
    "read_settings",
    "read_text",
    "resource",
    "with_source_ids",
    "write_private",
]
