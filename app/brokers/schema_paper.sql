-- The paper exchange's own book. It shares no table and no transaction with the ledger (CONTRACT 5).
-- Money and quantities are decimal text. orders.created_at is RFC 3339 UTC text, as the contract lists it;
-- the other times are UTC microseconds. `symbol` is the instrument in the exchange's spelling.

CREATE TABLE exchange (
    only_row INTEGER NOT NULL PRIMARY KEY CHECK (only_row = 1),
    id       TEXT    NOT NULL,          -- a UUID, made once with the file
    barrier  INTEGER NOT NULL DEFAULT 0 -- counted up after a COMMIT whose outcome was in doubt (HOLES H19)
) STRICT;

CREATE TABLE accounts (
    name      TEXT    NOT NULL PRIMARY KEY,
    identity  TEXT    NOT NULL UNIQUE,  -- a UUID, made once with the account (HOLES H13)
    paid_in   TEXT    NOT NULL,         -- the settings' `cash`, as last seen
    cash      TEXT    NOT NULL,
    opened_at INTEGER NOT NULL
) STRICT;

-- The last price that any alert showed of an instrument (HOLES H8).
CREATE TABLE prices (
    symbol   TEXT    NOT NULL PRIMARY KEY,
    price    TEXT    NOT NULL,
    shown_at INTEGER NOT NULL
) STRICT;

CREATE TABLE orders (
    id              TEXT    NOT NULL UNIQUE,
    account         TEXT    NOT NULL REFERENCES accounts (name),
    client_order_id TEXT    NOT NULL,
    symbol          TEXT    NOT NULL,
    side            TEXT    NOT NULL CHECK (side IN ('buy', 'sell')),
    quantity        TEXT    NOT NULL,
    status          TEXT    NOT NULL CHECK (status IN ('New', 'PartiallyFilled', 'Filled', 'Canceled')),
    filled_quantity TEXT    NOT NULL DEFAULT '0',
    average_price   TEXT,
    created_at      TEXT    NOT NULL,
    type            TEXT    NOT NULL CHECK (type IN ('market', 'limit', 'stop', 'stop_limit')),
    limit_price     TEXT,
    stop_price      TEXT,
    tif             TEXT    CHECK (tif IN ('day', 'gtc', 'ioc', 'fok')),
    reference_price TEXT,               -- the alert's price that came with the order
    fill_mode       TEXT    NOT NULL CHECK (fill_mode IN ('async', 'instant', 'partial')),
    triggered       INTEGER NOT NULL DEFAULT 0 CHECK (triggered IN (0, 1)), -- a stop whose price was reached
    due_price       TEXT,               -- a fill is owed at this price; kept here so that a crash cannot lose it
    reason          TEXT,               -- why the exchange itself canceled it
    sequence        INTEGER NOT NULL PRIMARY KEY, -- the order of arrival
    UNIQUE (account, client_order_id)
) STRICT;

CREATE INDEX orders_open ON orders (symbol, account) WHERE status IN ('New', 'PartiallyFilled');
CREATE INDEX orders_due ON orders (sequence) WHERE due_price IS NOT NULL;

CREATE TABLE fills (
    account  TEXT    NOT NULL REFERENCES accounts (name),
    exec_id  TEXT    NOT NULL,
    order_id TEXT    NOT NULL REFERENCES orders (id),
    symbol   TEXT    NOT NULL,
    side     TEXT    NOT NULL CHECK (side IN ('buy', 'sell')),
    quantity TEXT    NOT NULL,
    price    TEXT    NOT NULL,
    fee      TEXT    NOT NULL,
    at       INTEGER NOT NULL,
    PRIMARY KEY (account, exec_id)
) STRICT;

CREATE INDEX fills_of_order ON fills (order_id);
CREATE INDEX fills_of_symbol ON fills (account, symbol);
CREATE INDEX fills_by_time ON fills (account, at);

-- What the fills of an account and instrument add up to, signed: kept in each fill's transaction, so that a look
-- does not add up all of them.
CREATE TABLE positions (
    account  TEXT    NOT NULL REFERENCES accounts (name),
    symbol   TEXT    NOT NULL,
    quantity TEXT    NOT NULL,
    PRIMARY KEY (account, symbol)
) STRICT;
