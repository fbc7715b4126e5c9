-- Retention, version 2: keys that may be forgotten, and credentials that were replaced and still hold.

-- A forgotten claim keeps its row, its signal and its orders; its digest and key match nothing any more.
ALTER TABLE claims ADD COLUMN forgotten_at INTEGER;

-- How often keys of a source were forgotten. A key that is claimed again after that is another signal, and
-- its orders must not get the client order ids of the first one's (HOLES H12).
ALTER TABLE sources ADD COLUMN era INTEGER NOT NULL DEFAULT 0;
ALTER TABLE claims ADD COLUMN era INTEGER NOT NULL DEFAULT 0;

CREATE TRIGGER claims_of_an_era AFTER INSERT ON claims
WHEN (SELECT era FROM sources WHERE id = NEW.source_id) <> 0
BEGIN
    UPDATE claims SET era = (SELECT era FROM sources WHERE id = NEW.source_id) WHERE id = NEW.id;
END;

-- The digest of a token or secret that was rotated away: valid beside the new one until then.
CREATE TABLE retired_credentials (
    source_id TEXT NOT NULL REFERENCES sources (id),
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (source_id, digest)
) STRICT, WITHOUT ROWID;
