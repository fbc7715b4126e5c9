"""The command runs and prints every figure. What the figures are, a test cannot say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.benchmarks.ceiling import NAMES
from tests.benchmarks.processes import ROOT
from tests.benchmarks.report import Everything

FIGURES = (
    "asyncio: ack p50, 1 connection",
    "asyncio: durable acks a second, 64 connections",
    "qasync: ack p50, 1 connection",
    "qasync: durable acks a second, 64 connections",
    "asyncio: syncs an ack, 64 connections",
    "qasync: syncs an ack, 64 connections",
    "ack p99, window busy",
    "longest stall, median / worst",
    "window, Signals view shown (qasync)",
    "no window (asyncio)",
    "purge: one batch holds the ledger",
    "20000 claims",
    "of it the integrity check",
    "What each step costs alone",
)


def test_the_ceiling_is_measured_beside_a_bare_handler(tmp_path: Path) -> None:
    options = ("--rounds", "1", "--seconds", "0.2", "--folder", tmp_path)
    run = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.ceiling", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    _, _, *lines = run.stdout.splitlines()
    assert [line.split("|")[1].strip() for line in lines] == list(NAMES.values())
    assert "| 1.00 x |" in lines[0]
    assert list(tmp_path.iterdir()) == [], "the ledgers were left behind"


@pytest.mark.long  # 40 s and more, and it tells only that the command still runs
@pytest.mark.timeout(240)
def test_the_quick_run_prints_every_figure(tmp_path: Path) -> None:
    samples = tmp_path / "samples.json"
    run = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks", "--quick", "--json", samples, "--folder", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    missing = [figure for figure in FIGURES if figure not in run.stdout]
    assert not missing, run.stdout
    found = msgspec.json.decode(samples.read_bytes(), type=Everything)
    assert found.quick
    assert {(r.loop, r.kind, r.connections) for r in found.hot.runs} == {
        (loop, kind, connections)
        for loop in ("asyncio", "qasync")
        for kind in ("bare", "commit", "door")
        for connections in (1, 64)
    }
    assert found.hot.syncs.wal >= 1
    assert found.window.filled > 0.5
    assert (found.purge.bodies.rows, found.purge.keys.rows) == (200, 200)
    assert len(list(tmp_path.iterdir())) == 1, "the ledgers were left behind"
