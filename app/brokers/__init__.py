"""One module a broker: each states facts and makes calls. Nothing here decides, retries or uses the ledger."""
