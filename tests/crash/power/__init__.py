"""The ledger and the paper exchange on a disk whose power is cut at every write."""
