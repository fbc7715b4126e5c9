"""What one reconciliation has found: its sections, its findings and its colour. Shapes only, no decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

from app.brokers.base import SECTIONS
from app.domain.sizing import ZERO
from app.ledger.orders import plain

Colour = Literal["green", "amber", "red"]
NONE, DUST, PENDING, EXPLAINED, UNEXPLAINED = "none", "dust", "pending", "explained_external", "unexplained"
UNKNOWN = "unknown"
"""Of a position that could not be read, or whose fills could not: neither flat nor drift."""
_RED = frozenset({"ghost", "conflict", "section_failed", "missing_at_broker", "unresolved_too_long"})


@dataclass(frozen=True, slots=True)
class Finding:
    """`severity` is info, warning or critical; `kind` a stable word; `subject` an order, symbol or id."""

    severity: str
    kind: str
    subject: str
    detail: str


@dataclass(slots=True)
class Report:
    """One pass over one account. `result` is OK, FINDINGS, PARTIAL or FAILED; times are UTC microseconds.

    Lists of orders are rows of plain values, as they are written down and shown.
    """

    account: str
    cause: str
    started_at: int
    ended_at: int = 0
    result: str = "FAILED"
    reason: str = ""
    matched: int = 0
    fills_added: int = 0
    fills_ignored: int = 0
    """Seen before."""
    fills_orphan: int = 0
    """Of no order that anybody knows."""
    expected: dict[str, Decimal] = field(default_factory=dict)
    """Our books by instrument."""
    external: dict[str, Decimal] = field(default_factory=dict)
    broker: dict[str, Decimal] = field(default_factory=dict)
    drift: dict[str, str] = field(default_factory=dict)
    """By instrument: none, dust, pending, explained_external, unexplained, unknown."""
    active: list[str] = field(default_factory=list)
    """Instruments on which we traded meanwhile: what they seem to show is void (HOLES H37)."""
    resolved_now: list[dict[str, Any]] = field(default_factory=list)
    unknown_at_us: list[dict[str, Any]] = field(default_factory=list)
    missing_at_broker: list[str] = field(default_factory=list)
    ambiguous: list[dict[str, Any]] = field(default_factory=list)
    conflicts: list[dict[str, Any]] = field(default_factory=list)
    ghosts: list[str] = field(default_factory=list)
    sections: dict[str, str] = field(default_factory=dict)
    """By section `ok`, or why it is unknown."""
    since: int = 0
    clock_offset: int | None = None
    pages: int = 0
    requests: int = 0
    tries: int = 1
    findings: list[Finding] = field(default_factory=list)

    def note_sections(self, failed: Mapping[str, str]) -> None:
        self.sections = {name: failed.get(name, "ok") for name in SECTIONS}
        for name, why in failed.items():
            self.findings.append(Finding("critical", "section_failed", name, why))

    def is_known(self, *sections: str) -> bool:
        return all(self.sections.get(name) == "ok" for name in sections)

    @property
    def is_partial(self) -> bool:
        return any(said != "ok" for said in self.sections.values())

    @property
    def colour(self) -> Colour:
        kinds = {finding.kind for finding in self.findings}
        drifts = set(self.drift.values())
        if self.result in ("FAILED", "PARTIAL") or kinds & _RED or UNEXPLAINED in drifts:
            return "red"
        amber = self.unknown_at_us or drifts & {DUST, PENDING, EXPLAINED} or self.findings or self.ambiguous
        return "amber" if amber else "green"

    def as_json(self) -> dict[str, Any]:
        symbols = sorted({*self.expected, *self.broker, *self.external})
        return {
            "colour": self.colour,
            "matched": self.matched,
            "fills_added": self.fills_added,
            "fills_ignored": self.fills_ignored,
            "fills_orphan": self.fills_orphan,
            "reason": self.reason,
            "active": self.active,
            "positions": [self._position(symbol) for symbol in symbols],
            "resolved_now": self.resolved_now,
            "unknown_at_us": self.unknown_at_us,
            "missing_at_broker": self.missing_at_broker,
            "ambiguous": self.ambiguous,
            "conflicts": self.conflicts,
            "ghosts": self.ghosts,
            "sections": self.sections,
            "since": self.since,
            "clock_offset_ms": None if self.clock_offset is None else self.clock_offset // 1_000,
            "pages": self.pages,
            "requests": self.requests,
            "tries": self.tries,
        }

    def _position(self, symbol: str) -> dict[str, str | None]:
        external = self.external.get(symbol, ZERO)
        is_known = self.is_known("positions")
        row: dict[str, str | None] = {
            "symbol": symbol,
            "expected": plain(self.expected.get(symbol, ZERO)),
            "broker": plain(self.broker.get(symbol, ZERO)) if is_known else None,
        }
        if external:
            row["external"] = plain(external)
        row["drift"] = self.drift.get(symbol, NONE)
        return row
