"""One module a broker: it states facts and makes calls; nothing here decides, retries or uses the ledger."""
