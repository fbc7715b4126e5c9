-- The ledger, version 1. Times are UTC microseconds; money and quantity are decimal text; an id that a
-- person sees carries a letter in front (S signal, O order, D delivery, E event, R reconciliation), added by
-- the views; `number` there is the plain row id, to page by.

CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- One row a source ever seen. `id` is the namespace of its keys; `watermark` is set before keys are purged:
-- no signal whose time is not younger gets in (HOLES H40).
CREATE TABLE sources (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    watermark INTEGER
) STRICT, WITHOUT ROWID;

-- One row a key, for ever by default. The row id is the admission number: lanes work in its order.
CREATE TABLE claims (
    id INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
    source_id TEXT NOT NULL REFERENCES sources (id),
    key TEXT NOT NULL,
    key_source TEXT NOT NULL CHECK (key_source IN ('body', 'header', 'derived', 'window')),
    header_key INTEGER NOT NULL CHECK (header_key IN (0, 1)),
    epoch INTEGER,                       -- window keys: when the accepted one opened the window
    opened_boot INTEGER,                 -- the same moment on the clock that never steps ...
    opened_run TEXT,                     -- ... which means something only within this run of the program
    rule_version INTEGER NOT NULL,
    raw_fingerprint BLOB NOT NULL,
    intent_fingerprint BLOB NOT NULL,
    signal TEXT NOT NULL,                -- the Signal as JSON
    symbol TEXT NOT NULL,
    action TEXT NOT NULL,
    quantity TEXT,
    bar_time INTEGER,
    signal_time INTEGER,                 -- when it fired or its bar closed; null where the payload says neither
    first_received_at INTEGER NOT NULL,
    admitted_at INTEGER NOT NULL,        -- receipt of the delivery that was admitted; later than the first after a 503
    deliveries INTEGER NOT NULL DEFAULT 0,   -- accepted and duplicate ones
    unanswered INTEGER NOT NULL DEFAULT 0 CHECK (unanswered IN (0, 1))   -- committed, but the sender was told 503
) STRICT;
CREATE INDEX claims_by_window ON claims (source_id, key, epoch) WHERE key_source = 'window';

-- Every request that passed authentication.
CREATE TABLE deliveries (
    id INTEGER PRIMARY KEY,
    received_at INTEGER NOT NULL,
    source_id TEXT NOT NULL REFERENCES sources (id),
    verdict TEXT NOT NULL,
    http_status INTEGER,
    reason TEXT,
    fields TEXT,                         -- JSON array of names, as they were sent
    detail TEXT,
    claim_id INTEGER REFERENCES claims (id),
    key TEXT,
    warnings TEXT,                       -- JSON array of sentences
    ack_us INTEGER
) STRICT;
CREATE INDEX deliveries_by_claim ON deliveries (claim_id);

-- Kept apart so that retention can drop bodies and keep keys. Secrets are blanked before they get here.
CREATE TABLE bodies (
    delivery_id INTEGER PRIMARY KEY REFERENCES deliveries (id) ON DELETE CASCADE,
    body TEXT NOT NULL
) STRICT;

-- What failed authentication is counted, by hour and reason, and not kept.
CREATE TABLE unauthenticated (
    hour INTEGER NOT NULL,
    reason TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (hour, reason)
) STRICT, WITHOUT ROWID;

CREATE TABLE accounts (
    name TEXT PRIMARY KEY,
    broker TEXT NOT NULL,
    identity TEXT,                       -- the broker's own account number, as last read
    endpoint TEXT,
    day TEXT,                            -- trading day of `day_equity`
    day_equity TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE order_edges (
    from_state TEXT NOT NULL,
    to_state TEXT NOT NULL,
    PRIMARY KEY (from_state, to_state)
) STRICT, WITHOUT ROWID;

INSERT INTO order_edges (from_state, to_state) VALUES
    ('PENDING', 'SUBMITTING'),
    ('PENDING', 'DENIED'),
    ('PENDING', 'DONE'),
    ('PENDING', 'NEEDS_OPERATOR'),
    ('SUBMITTING', 'WORKING'),
    ('SUBMITTING', 'NOT_PLACED'),
    ('SUBMITTING', 'AMBIGUOUS'),
    ('SUBMITTING', 'PENDING'),
    ('SUBMITTING', 'DENIED'),
    ('SUBMITTING', 'NEEDS_OPERATOR'),
    ('AMBIGUOUS', 'WORKING'),
    ('AMBIGUOUS', 'NOT_PLACED'),
    ('AMBIGUOUS', 'NEEDS_OPERATOR'),
    ('NEEDS_OPERATOR', 'WORKING'),
    ('NEEDS_OPERATOR', 'NOT_PLACED'),
    ('NEEDS_OPERATOR', 'AMBIGUOUS'),
    ('WORKING', 'DONE'),
    ('WORKING', 'NEEDS_OPERATOR'),
    ('NOT_PLACED', 'WORKING'),
    ('NOT_PLACED', 'PENDING');

CREATE TRIGGER order_edges_none_added BEFORE INSERT ON order_edges
BEGIN SELECT RAISE(ABORT, 'the order state table is fixed'); END;
CREATE TRIGGER order_edges_fixed BEFORE UPDATE ON order_edges
BEGIN SELECT RAISE(ABORT, 'the order state table is fixed'); END;
CREATE TRIGGER order_edges_stay BEFORE DELETE ON order_edges
BEGIN SELECT RAISE(ABORT, 'the order state table is fixed'); END;

-- One row an intent: claim, account, leg, generation. What is not yet decided is null.
CREATE TABLE orders (
    id INTEGER PRIMARY KEY,
    claim_id INTEGER NOT NULL REFERENCES claims (id),
    account TEXT NOT NULL REFERENCES accounts (name),
    leg INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    instrument TEXT NOT NULL,            -- the broker's spelling
    source_id TEXT NOT NULL REFERENCES sources (id),
    strategy TEXT NOT NULL,              -- '' where the payload names none; with source_id it names the book
    action TEXT NOT NULL,
    purpose TEXT NOT NULL CHECK (purpose IN ('undecided', 'entry', 'exit', 'cancel')),
    side TEXT CHECK (side IN ('buy', 'sell')),
    quantity TEXT,
    type TEXT NOT NULL,
    limit_price TEXT,
    stop_price TEXT,
    tif TEXT,
    state TEXT NOT NULL,
    ord_status TEXT,
    reason TEXT,
    client_order_id TEXT,
    broker_order_id TEXT,
    filled_quantity TEXT NOT NULL DEFAULT '0',
    average_price TEXT,
    not_after INTEGER,                   -- entries: no byte leaves after this moment; exits have none
    cancel_requested INTEGER NOT NULL DEFAULT 0 CHECK (cancel_requested IN (0, 1)),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (claim_id, account, leg, generation)
) STRICT;
CREATE UNIQUE INDEX orders_by_client_order_id ON orders (account, client_order_id) WHERE client_order_id IS NOT NULL;
CREATE UNIQUE INDEX orders_by_broker_order_id ON orders (account, broker_order_id) WHERE broker_order_id IS NOT NULL;
CREATE INDEX orders_open ON orders (account, instrument, claim_id) WHERE state NOT IN ('DONE', 'DENIED', 'NOT_PLACED');
CREATE INDEX orders_by_state ON orders (state) WHERE state NOT IN ('DONE', 'DENIED', 'NOT_PLACED');

CREATE TRIGGER orders_start_pending BEFORE INSERT ON orders
WHEN NEW.state <> 'PENDING'
BEGIN
    SELECT RAISE(ABORT, 'an order starts PENDING');
END;

CREATE TRIGGER orders_follow_edges BEFORE UPDATE OF state ON orders
WHEN OLD.state <> NEW.state
    AND NOT EXISTS (SELECT 1 FROM order_edges WHERE from_state = OLD.state AND to_state = NEW.state)
BEGIN
    SELECT RAISE(ABORT, 'no such move in the order state table');
END;

CREATE TRIGGER orders_stay BEFORE DELETE ON orders
BEGIN
    SELECT RAISE(ABORT, 'orders are never deleted');
END;

CREATE TRIGGER orders_keep_identity BEFORE UPDATE OF id, claim_id, account, leg, generation ON orders
WHEN NEW.id <> OLD.id OR NEW.claim_id <> OLD.claim_id OR NEW.account <> OLD.account OR NEW.leg <> OLD.leg
    OR NEW.generation <> OLD.generation
BEGIN
    SELECT RAISE(ABORT, 'what an order stands for is never changed');
END;

CREATE TRIGGER orders_keep_client_order_id BEFORE UPDATE OF client_order_id ON orders
WHEN OLD.client_order_id IS NOT NULL AND NEW.client_order_id IS NOT OLD.client_order_id
BEGIN
    SELECT RAISE(ABORT, 'a client order id is never changed');
END;

-- Each send. Append-only but for the one reply that closes it.
CREATE TABLE attempts (
    id INTEGER PRIMARY KEY,
    order_id INTEGER NOT NULL REFERENCES orders (id),
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    identity TEXT NOT NULL,              -- the account number and endpoint that it goes to (HOLES H13)
    endpoint TEXT NOT NULL,
    request TEXT NOT NULL,               -- JSON, the frozen terms
    arrival_deadline INTEGER NOT NULL,   -- no later than this can it still arrive
    ended_at INTEGER,
    bytes_left INTEGER CHECK (bytes_left IN (0, 1)),
    reply TEXT,
    UNIQUE (order_id, number)
) STRICT;
CREATE TRIGGER attempts_stay BEFORE DELETE ON attempts BEGIN SELECT RAISE(ABORT, 'attempts are append-only'); END;
CREATE TRIGGER attempts_close_once BEFORE UPDATE ON attempts WHEN OLD.ended_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'attempts are append-only'); END;

-- Each look at the broker.
CREATE TABLE evidence (
    id INTEGER PRIMARY KEY,
    order_id INTEGER NOT NULL REFERENCES orders (id),
    at INTEGER NOT NULL,
    identity TEXT NOT NULL,
    look TEXT NOT NULL,
    result TEXT NOT NULL CHECK (result IN ('found', 'absent', 'failed')),
    detail TEXT
) STRICT;
CREATE INDEX evidence_by_order ON evidence (order_id);
CREATE TRIGGER evidence_stays BEFORE DELETE ON evidence BEGIN SELECT RAISE(ABORT, 'evidence is append-only'); END;
CREATE TRIGGER evidence_fixed BEFORE UPDATE ON evidence BEGIN SELECT RAISE(ABORT, 'evidence is append-only'); END;

CREATE TABLE fills (
    id INTEGER PRIMARY KEY,
    account TEXT NOT NULL REFERENCES accounts (name),
    exec_id TEXT NOT NULL,
    order_id INTEGER NOT NULL REFERENCES orders (id),
    side TEXT NOT NULL CHECK (side IN ('buy', 'sell')),
    quantity TEXT NOT NULL,
    price TEXT NOT NULL,
    fee TEXT NOT NULL,
    at INTEGER NOT NULL,
    UNIQUE (account, exec_id)
) STRICT;
CREATE INDEX fills_by_order ON fills (order_id);
CREATE TRIGGER fills_stay BEFORE DELETE ON fills BEGIN SELECT RAISE(ABORT, 'fills are append-only'); END;
CREATE TRIGGER fills_fixed BEFORE UPDATE ON fills BEGIN SELECT RAISE(ABORT, 'fills are append-only'); END;

-- A person's correction of a book.
CREATE TABLE adjustments (
    id INTEGER PRIMARY KEY,
    account TEXT NOT NULL REFERENCES accounts (name),
    instrument TEXT NOT NULL,
    source_id TEXT NOT NULL,
    strategy TEXT NOT NULL,
    quantity TEXT NOT NULL,              -- signed difference
    at INTEGER NOT NULL,
    why TEXT NOT NULL
) STRICT;

-- The net of fills and adjustments, kept up in the transaction that adds one. A test recomputes it.
CREATE TABLE books (
    account TEXT NOT NULL REFERENCES accounts (name),
    instrument TEXT NOT NULL,
    source_id TEXT NOT NULL,
    strategy TEXT NOT NULL,
    net TEXT NOT NULL,                   -- signed
    PRIMARY KEY (account, instrument, source_id, strategy)
) STRICT, WITHOUT ROWID;

CREATE TABLE reconciliations (
    id INTEGER PRIMARY KEY,
    account TEXT NOT NULL REFERENCES accounts (name),
    cause TEXT NOT NULL,                 -- start, timer, reconnect, button
    started_at INTEGER NOT NULL,
    ended_at INTEGER NOT NULL,
    result TEXT NOT NULL CHECK (result IN ('OK', 'FINDINGS', 'PARTIAL', 'FAILED')),
    report TEXT NOT NULL                 -- JSON: sections, counts, positions
) STRICT;

CREATE TABLE findings (
    id INTEGER PRIMARY KEY,
    reconciliation_id INTEGER NOT NULL REFERENCES reconciliations (id),
    severity TEXT NOT NULL CHECK (severity IN ('info', 'warning', 'critical')),
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT;
CREATE INDEX findings_by_run ON findings (reconciliation_id);

-- Who did what, when and why. Each row carries the hash of the one before it.
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    what TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail TEXT NOT NULL,                -- JSON object
    hash BLOB NOT NULL CHECK (length(hash) = 32)
) STRICT;
CREATE INDEX events_by_subject ON events (subject);
CREATE TRIGGER events_stay BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER events_fixed BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;

-- A changing command that was asked for once acts once (HOLES H26).
CREATE TABLE requests (
    id TEXT PRIMARY KEY,
    at INTEGER NOT NULL,
    command TEXT NOT NULL,
    answer TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- ---------------------------------------------------------------- what auditors and the window read

CREATE VIEW v_deliveries AS
SELECT
    'D' || d.id AS id,
    strftime('%Y-%m-%dT%H:%M:%S', d.received_at / 1000000, 'unixepoch') || printf('.%06dZ', d.received_at % 1000000) AS received_at,
    s.name AS source,
    d.verdict AS verdict,
    d.http_status AS http_status,
    d.reason AS reason,
    CASE WHEN d.claim_id IS NULL THEN NULL ELSE 'S' || d.claim_id END AS signal,
    d.key AS key,
    CASE WHEN d.ack_us IS NULL THEN NULL ELSE round(d.ack_us / 1000.0, 3) END AS ack_ms,
    d.fields AS fields,
    d.detail AS detail,
    d.warnings AS warnings,
    d.id AS number
FROM deliveries d
JOIN sources s ON s.id = d.source_id;

-- The newest generation of each leg speaks for it.
CREATE VIEW newest_orders AS
SELECT o.* FROM orders o
WHERE o.generation = (
    SELECT max(n.generation) FROM orders n
    WHERE n.claim_id = o.claim_id AND n.account = o.account AND n.leg = o.leg
);

CREATE VIEW v_signals AS
SELECT
    'S' || c.id AS id,
    s.name AS source,
    c.key AS key,
    c.key_source AS key_source,
    c.symbol AS symbol,
    c.action AS action,
    c.quantity AS quantity,
    strftime('%Y-%m-%dT%H:%M:%S', c.first_received_at / 1000000, 'unixepoch') || printf('.%06dZ', c.first_received_at % 1000000) AS first_seen,
    c.deliveries AS deliveries,
    coalesce((
        SELECT o.state FROM newest_orders o WHERE o.claim_id = c.id
        ORDER BY CASE o.state
            WHEN 'NEEDS_OPERATOR' THEN 0 WHEN 'AMBIGUOUS' THEN 1 WHEN 'SUBMITTING' THEN 2 WHEN 'PENDING' THEN 3
            WHEN 'WORKING' THEN 4 WHEN 'DENIED' THEN 5 WHEN 'NOT_PLACED' THEN 6 ELSE 7 END
        LIMIT 1
    ), 'DONE') AS outcome,
    c.unanswered AS unanswered,
    c.id AS number
FROM claims c
JOIN sources s ON s.id = c.source_id;

CREATE VIEW v_orders AS
SELECT
    'O' || o.id AS id,
    'S' || o.claim_id AS signal,
    o.account AS account,
    o.generation AS generation,
    o.leg AS leg,
    o.client_order_id AS client_order_id,
    o.broker_order_id AS broker_order_id,
    c.symbol AS symbol,
    o.side AS side,
    o.quantity AS quantity,
    o.state AS state,
    o.ord_status AS ord_status,
    o.filled_quantity AS filled_quantity,
    o.average_price AS average_price,
    o.reason AS reason,
    strftime('%Y-%m-%dT%H:%M:%S', o.created_at / 1000000, 'unixepoch') || printf('.%06dZ', o.created_at % 1000000) AS created_at,
    strftime('%Y-%m-%dT%H:%M:%S', o.updated_at / 1000000, 'unixepoch') || printf('.%06dZ', o.updated_at % 1000000) AS updated_at,
    o.type AS type,
    o.limit_price AS limit_price,
    o.stop_price AS stop_price,
    o.tif AS tif,
    o.action AS action,
    o.purpose AS purpose,
    o.id AS number
FROM orders o
JOIN claims c ON c.id = o.claim_id;

CREATE VIEW v_fills AS
SELECT
    f.account AS account,
    f.exec_id AS exec_id,
    'O' || f.order_id AS order_id,
    c.symbol AS symbol,
    f.side AS side,
    f.quantity AS quantity,
    f.price AS price,
    f.fee AS fee,
    strftime('%Y-%m-%dT%H:%M:%S', f.at / 1000000, 'unixepoch') || printf('.%06dZ', f.at % 1000000) AS at,
    f.id AS number
FROM fills f
JOIN orders o ON o.id = f.order_id
JOIN claims c ON c.id = o.claim_id;

CREATE VIEW v_events AS
SELECT
    'E' || e.id AS id,
    strftime('%Y-%m-%dT%H:%M:%S', e.at / 1000000, 'unixepoch') || printf('.%06dZ', e.at % 1000000) AS at,
    e.actor AS actor,
    e.what AS what,
    e.subject AS subject,
    e.detail AS detail,
    e.id AS number
FROM events e;

CREATE VIEW v_positions AS
SELECT
    b.account AS account,
    b.instrument AS symbol,
    s.name AS source,
    b.strategy AS strategy,
    b.net AS quantity
FROM books b
JOIN sources s ON s.id = b.source_id;

CREATE VIEW v_reconciliations AS
SELECT
    'R' || r.id AS id,
    r.account AS account,
    r.cause AS cause,
    strftime('%Y-%m-%dT%H:%M:%S', r.started_at / 1000000, 'unixepoch') || printf('.%06dZ', r.started_at % 1000000) AS started_at,
    strftime('%Y-%m-%dT%H:%M:%S', r.ended_at / 1000000, 'unixepoch') || printf('.%06dZ', r.ended_at % 1000000) AS ended_at,
    r.result AS result,
    r.report AS report,
    (SELECT count(*) FROM findings f WHERE f.reconciliation_id = r.id) AS findings,
    r.id AS number
FROM reconciliations r;
