"""The door: bytes in, one answer out, and a claim on disk in between. Nothing here waits for a broker."""
