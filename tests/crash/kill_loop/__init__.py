"""Killed at moments that nobody chose, under load, again and again."""
