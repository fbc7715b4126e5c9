"""The rules, pure: no I/O, no Qt, no asyncio, and no clock of their own; every time is an argument."""
