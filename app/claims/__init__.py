"""Claiming: who was first with a key. Durable before it is answered, decided in one transaction, never in memory."""
