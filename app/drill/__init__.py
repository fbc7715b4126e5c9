"""The simulated exchange, and the drills that are run against it. Loaded only by `onefill drill` and tests.

An independent judge: it speaks a broker's wire format over a real socket and keeps its own book, and it
imports nothing of the adapters, of execution or of the ledger.
"""
