"""The ledger: one SQLite file, one writing thread, read-only readers. It records; it never decides."""
