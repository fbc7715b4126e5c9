"""Onefill: one signal, one order. See README.md for the rooms and what may not happen in each."""

__version__ = "0.1.0"
