"""The real program as a subprocess: killed, stopped, started again."""
