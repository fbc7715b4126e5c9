-- A person's hand, version 3: what waits for his eyes, and until when.

-- When a person put it away; until then what ended badly stands in "Needs you".
ALTER TABLE orders ADD COLUMN settled_at INTEGER;
ALTER TABLE findings ADD COLUMN settled_at INTEGER;

-- Why a person should look at a delivery: `exit`, it reads as one and nothing was placed for it; `look`, it
-- may be a signal of its own. Null once it was admitted or put away.
ALTER TABLE deliveries ADD COLUMN needs TEXT CHECK (needs IN ('exit', 'look'));
UPDATE deliveries SET needs = CASE WHEN instr(warnings, 'exit_not_placed: ') > 0 THEN 'exit' ELSE 'look' END
WHERE (
    verdict = 'conflict' OR instr(warnings, 'exit_not_placed: ') > 0 OR instr(warnings, 'second_signal: ') > 0
) AND NOT EXISTS (
    SELECT 1 FROM events e
    WHERE e.subject = 'D' || deliveries.id AND e.what IN ('conflict admitted', 'conflict dismissed')
);

CREATE INDEX deliveries_needing_eyes ON deliveries (id) WHERE needs IS NOT NULL;
-- Word for word the condition of `needs.py`: without it a search reads every order ever made.
CREATE INDEX orders_needing_eyes ON orders (id) WHERE settled_at IS NULL AND (
    (purpose IN ('exit', 'cancel') OR action = 'reverse') AND cancel_requested = 0
    AND (state IN ('DENIED', 'NOT_PLACED') OR (state = 'DONE' AND ord_status <> 'Filled'))
    OR state = 'DENIED' AND substr(reason, 1, 5) IN ('OTHER', 'DRIFT')
    OR state = 'DENIED' AND substr(reason, 1, 16) = 'STALE unanswered'
);
-- Whether a later exit of the book has done what a lost one did not.
CREATE INDEX orders_exits_done ON orders (account, instrument, source_id, strategy)
WHERE purpose = 'exit' AND state = 'DONE';
CREATE INDEX reconciliations_by_account ON reconciliations (account);
CREATE INDEX findings_ghosts ON findings (subject) WHERE kind = 'ghost';
