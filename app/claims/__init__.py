"""Claiming: who was first with a key.

Decided in one transaction, on disk before it is answered, never kept in memory.
"""
