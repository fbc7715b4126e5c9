"""The views of the window, left to right: which there are, and what stands below their rows."""

from __future__ import annotations

from decimal import Decimal

from PySide6.QtWidgets import QWidget

from app.gui import activity, fills, orders, reconciliation, refused, signals
from app.gui.charts import MoneyCharts, TrafficCharts
from app.gui.health import HealthTab
from app.gui.needs import NeedsTab
from app.gui.ports import EngineView
from app.gui.positions import PositionsTab
from app.gui.tab import LedgerTab, Sources


def _paper_cash(engine: EngineView) -> dict[str, Decimal]:
    """What each paper account began with: the ledger does not keep it."""
    return {each.name: each.cash for each in engine.settings.accounts if each.broker == "paper"}


def make_views(engine: EngineView, sources: Sources, parent: QWidget) -> dict[str, LedgerTab]:
    """By name."""
    held, health = PositionsTab(sources, parent), HealthTab(engine.status, sources, parent)
    held.set_below(MoneyCharts(sources, lambda: _paper_cash(engine), held))
    health.set_below(TrafficCharts(sources, health))
    listed = {
        table.name: LedgerTab(table, sources, parent)
        for table in (
            signals.TABLE,
            orders.TABLE,
            fills.TABLE,
            reconciliation.TABLE,
            activity.TABLE,
        )
    }
    views = (
        NeedsTab(sources, parent),
        listed["signals"],
        refused.RefusedTab(sources, parent),
        listed["orders"],
        listed["fills"],
        held,
        listed["reconciliation"],
        listed["activity"],
        health,
    )
    return {view.definition.name: view for view in views}
