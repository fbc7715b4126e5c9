-- At a real venue, version 4: what orders reserve, who an account is, and what in it is none of ours.

-- What one unit was worth when the order was decided: what may still fill of it is reserved at that (HOLES H6).
ALTER TABLE orders ADD COLUMN price TEXT;
-- Filled whole, it leaves nothing of what its book held: only such a one makes good a lost exit before it.
ALTER TABLE orders ADD COLUMN closes_book INTEGER NOT NULL DEFAULT 0 CHECK (closes_book IN (0, 1));
-- Sent outside the session: the broker keeps it until then (HOLES H33). 0 is: nobody knows until when.
ALTER TABLE orders ADD COLUMN queued_until INTEGER;
UPDATE orders SET closes_book = 1 WHERE purpose = 'exit' AND state = 'DONE';
CREATE INDEX orders_closing ON orders (account, instrument, source_id, strategy)
WHERE closes_book = 1 AND state = 'DONE';
CREATE INDEX orders_queued ON orders (id) WHERE queued_until IS NOT NULL AND state = 'WORKING';

-- Entries that were lost on the way stand in "Needs you" too; those of before were seen or are long past.
UPDATE orders SET settled_at = updated_at
WHERE settled_at IS NULL AND state = 'NOT_PLACED' AND substr(reason, 1, 16) = 'CONFIRMED_ABSENT'
    AND purpose NOT IN ('exit', 'cancel') AND action <> 'reverse';
DROP INDEX orders_needing_eyes;
CREATE INDEX orders_needing_eyes ON orders (id) WHERE settled_at IS NULL AND (
    (purpose IN ('exit', 'cancel') OR action = 'reverse') AND cancel_requested = 0
    AND (state IN ('DENIED', 'NOT_PLACED') OR (state = 'DONE' AND ord_status <> 'Filled'))
    OR state = 'DENIED' AND substr(reason, 1, 5) IN ('OTHER', 'DRIFT')
    OR state = 'DENIED' AND substr(reason, 1, 18) = 'POSITION_UNCERTAIN'
    OR state = 'DENIED' AND substr(reason, 1, 16) = 'STALE unanswered'
    OR state = 'NOT_PLACED' AND substr(reason, 1, 16) = 'CONFIRMED_ABSENT'
    OR state IN ('DENIED', 'NOT_PLACED') AND leg > 1 AND purpose = 'entry'
);

-- Who answers as an account now, where that is not the one that was accepted, or trades money and nobody has
-- said so yet: it reads and sends nothing until a person has acknowledged that very number (HOLES H13).
ALTER TABLE accounts ADD COLUMN answering TEXT;
ALTER TABLE accounts ADD COLUMN answering_at TEXT;
ALTER TABLE accounts ADD COLUMN answering_live INTEGER CHECK (answering_live IN (0, 1));
ALTER TABLE accounts ADD COLUMN answering_since INTEGER;
-- Why it must not be used beside another of the same number.
ALTER TABLE accounts ADD COLUMN same_as TEXT;

CREATE TABLE acknowledgements (
    id INTEGER PRIMARY KEY,
    account TEXT NOT NULL REFERENCES accounts (name),
    identity TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    live INTEGER NOT NULL CHECK (live IN (0, 1)),
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    why TEXT NOT NULL
) STRICT;
CREATE TRIGGER acknowledgements_stay BEFORE DELETE ON acknowledgements
BEGIN SELECT RAISE(ABORT, 'acknowledgements are append-only'); END;
CREATE TRIGGER acknowledgements_fixed BEFORE UPDATE ON acknowledgements
BEGIN SELECT RAISE(ABORT, 'acknowledgements are append-only'); END;

-- What an account holds on an instrument that is none of ours and is explained: held before we came, traded
-- by another hand, or seen by a person. Signed.
CREATE TABLE externals (
    account TEXT NOT NULL REFERENCES accounts (name),
    instrument TEXT NOT NULL,
    quantity TEXT NOT NULL,
    PRIMARY KEY (account, instrument)
) STRICT, WITHOUT ROWID;

-- Orders and fills of another hand, each told once.
CREATE TABLE external_orders (
    account TEXT NOT NULL REFERENCES accounts (name),
    broker_order_id TEXT NOT NULL,
    client_order_id TEXT,
    instrument TEXT NOT NULL,
    side TEXT NOT NULL CHECK (side IN ('buy', 'sell')),
    quantity TEXT NOT NULL,
    status TEXT NOT NULL,
    origin TEXT NOT NULL,
    first_seen INTEGER NOT NULL,
    PRIMARY KEY (account, broker_order_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE external_fills (
    account TEXT NOT NULL REFERENCES accounts (name),
    exec_id TEXT NOT NULL,
    instrument TEXT NOT NULL,
    side TEXT NOT NULL CHECK (side IN ('buy', 'sell')),
    quantity TEXT NOT NULL,
    price TEXT NOT NULL,
    at INTEGER NOT NULL,
    first_seen INTEGER NOT NULL,
    PRIMARY KEY (account, exec_id)
) STRICT, WITHOUT ROWID;

-- A difference that nothing explains, and in how many passes in a row it was found.
CREATE TABLE drifts (
    account TEXT NOT NULL REFERENCES accounts (name),
    instrument TEXT NOT NULL,
    quantity TEXT NOT NULL,
    passes INTEGER NOT NULL,
    first_seen INTEGER NOT NULL,
    last_seen INTEGER NOT NULL,
    PRIMARY KEY (account, instrument)
) STRICT, WITHOUT ROWID;
