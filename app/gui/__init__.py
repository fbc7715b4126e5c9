"""The window: the only room that imports Qt. It reads the ledger, asks the engine, decides nothing.

Nothing here blocks the loop, opens a nested loop, or touches a broker.
"""
