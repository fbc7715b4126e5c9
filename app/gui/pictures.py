"""From numbers of the ledger to pictures, each with its sentence. Pure; runs off the loop."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from PySide6.QtCore import Qt

from app.gui.formats import grouped
from app.gui.plot import Kind, Picture, Series
from app.gui.theme import Tone
from app.gui.words import tr
from app.ledger.series import Bars, Latency, Money

LIMIT_MS = 3_000.0
"""TradingView gives up on an answer after three seconds."""


def activity_picture(bars: Bars) -> Picture:
    counts = bars.counts
    spans = len(next(iter(counts.values())))
    times = [bars.start + place * bars.width for place in range(spans)]
    total = {name: sum(numbers) for name, numbers in counts.items()}
    series = (
        Series(tr("signals"), Tone.WORKING, counts["signals"], Kind.BAR),
        Series(tr("duplicates"), Tone.SAME, counts["duplicates"], Kind.BAR, Qt.BrushStyle.BDiagPattern),
        Series(tr("refused"), Tone.BAD, counts["refused"], Kind.BAR, Qt.BrushStyle.DiagCrossPattern),
        Series(tr("orders"), Tone.GOOD, counts["orders"], Kind.LINE, dash=Qt.PenStyle.DashLine),
    )
    summary = tr(
        "Came in: {signals} signals, {duplicates} duplicates, {refused} refused; {orders} orders made."
    )
    summary = summary.format(**{name: grouped(number) for name, number in total.items()})
    came = [
        sum(counts[name][place] for name in ("signals", "duplicates", "refused")) for place in range(spans)
    ]
    if any(came):
        most = max(range(spans), key=lambda place: came[place])
        summary += " " + tr("Most at {time}: {number}.").format(
            time=_clock(times[most]), number=grouped(came[most])
        )
    return Picture(
        title=tr("What came in"),
        times=times,
        width=bars.width,
        series=series,
        write=lambda value: grouped(round(value)) if value == round(value) else "",
        summary=summary,
        empty=tr("Nothing came in during this time."),
    )


def latency_picture(found: Sequence[Latency], since: int, until: int, spans: int) -> Picture:
    width = max(1, (until - since) // spans)
    times = [since + place * width for place in range(spans)]
    by_place = {(each.at - since) // width: each for each in found}
    rows = [by_place.get(place) for place in range(spans)]
    series = (
        Series(tr("half within"), Tone.GOOD, [None if r is None else r.median for r in rows]),
        Series(
            tr("99 % within"),
            Tone.WORKING,
            [None if r is None else r.p99 for r in rows],
            dash=Qt.PenStyle.DashLine,
        ),
        Series(
            tr("longest"),
            Tone.HELD,
            [None if r is None else r.longest for r in rows],
            dash=Qt.PenStyle.DotLine,
        ),
    )
    summary = ""
    if found:
        longest = max(found, key=lambda each: each.longest)
        words = tr("Answers: the longest took {longest}, at {time}; TradingView waits 3 s.")
        summary = words.format(longest=_milliseconds(longest.longest), time=_clock(longest.at))
    return Picture(
        title=tr("Time to the answer"),
        times=times,
        width=width,
        series=series,
        write=_milliseconds,
        summary=summary,
        limit=(LIMIT_MS, tr("3 s: TradingView gives up")),
        log=True,
        empty=tr("No answer was measured during this time."),
    )


def money_pictures(
    points: Sequence[Money], account: str, cash: Decimal | None, since: int, until: int, spans: int
) -> list[Picture]:
    """Equity and exposure. `cash`: what the account began with; without it the result is drawn instead."""
    width = max(1, (until - since) // spans)
    times = [since + place * width for place in range(spans)]
    start = Decimal(0) if cash is None else cash
    known = _last_of_each(points, [*times[1:], until + 1])
    values = [None if each is None else start + each.profit for each in known]
    stakes = [None if each is None else each.exposure for each in known]
    name = tr("equity") if cash is not None else tr("result since the first fill")
    return [
        Picture(
            title=tr("Equity of {account}").format(account=account) if cash is not None else tr("Result"),
            times=times,
            width=width,
            series=(Series(name, Tone.WORKING, _for_the_eye(values)),),
            write=_amount,
            summary=_from_to(f"{account}: {name}", values, tr("at the prices of our last fills")),
            empty=tr("No fills yet: the equity is drawn from them."),
        ),
        Picture(
            title=tr("Exposure: what is at stake, long and short added up"),
            times=times,
            width=width,
            series=(Series(tr("exposure"), Tone.HELD, _for_the_eye(stakes), dash=Qt.PenStyle.DashLine),),
            write=_amount,
            summary=_from_to(tr("exposure"), stakes, ""),
            empty=tr("Nothing is at stake."),
        ),
    ]


def _last_of_each(points: Sequence[Money], ends: Sequence[int]) -> list[Money | None]:
    """What held at each of these moments."""
    found: list[Money | None] = []
    known: Money | None = None
    after = 0
    for end in ends:
        while after < len(points) and points[after].at < end:
            known = points[after]
            after += 1
        found.append(known)
    return found


def _for_the_eye(values: Sequence[Decimal | None]) -> list[float | None]:
    """What is drawn is not reckoned with."""
    return [None if value is None else float(value) for value in values]


def _from_to(name: str, values: Sequence[Decimal | None], how: str) -> str:
    told = [value for value in values if value is not None]
    if not told:
        return ""
    text = tr("{name} {value}, between {lowest} and {highest}").format(
        name=name, value=money(told[-1]), lowest=money(min(told)), highest=money(max(told))
    )
    return f"{text}, {how}." if how else f"{text}."


def _amount(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.2f}"


def money(value: Decimal) -> str:
    return f"{value.quantize(Decimal('0.01')):,f}"


def _milliseconds(value: float) -> str:
    return f"{value / 1_000:g} s" if value >= 1_000 else f"{value:.3g} ms"


def _clock(at: int) -> str:
    return f"{datetime.fromtimestamp(at / 1_000_000).astimezone():%m-%d %H:%M}"
