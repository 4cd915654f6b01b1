-- The outbox anew: ids from the database, states by name, and what follows a message (its file, its removal) as rows of
-- their own. final_at is 0 while an entry is on its way.
CREATE TABLE outbox_new (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    kind             INTEGER NOT NULL,            -- 0 send, 1 redact, 2 file
    after            INTEGER NOT NULL DEFAULT 0,  -- of a follow-up: the message's id. The row that sends a message has the message's id
    room             INTEGER NOT NULL,            -- rooms.id
    state            TEXT    NOT NULL,
    txn              TEXT    NOT NULL,
    queued_at        INTEGER NOT NULL,            -- accepted or delivered again: age counts from here
    attempts         INTEGER NOT NULL DEFAULT 0,
    next_at          INTEGER NOT NULL DEFAULT 0,
    first_attempt_at INTEGER NOT NULL DEFAULT 0,  -- the earliest time a copy may have reached the homeserver
    device           TEXT    NOT NULL DEFAULT '',
    event_type       TEXT    NOT NULL DEFAULT '',
    wire             BLOB,
    cut              INTEGER NOT NULL DEFAULT 0,  -- wire does not hold the whole message
    error            TEXT    NOT NULL DEFAULT '',
    code             TEXT    NOT NULL DEFAULT '',
    event_id         TEXT    NOT NULL DEFAULT '', -- of a removal: the event to remove
    final_at         INTEGER NOT NULL DEFAULT 0
);

-- A message whose event is in the room and whose file was still to follow is sent.
INSERT INTO outbox_new
SELECT id, op, CASE WHEN op = 0 THEN 0 ELSE message_id END, room,
    CASE WHEN state < 10 AND step = 1 THEN 'sent' ELSE
        CASE state WHEN 0 THEN 'queued' WHEN 1 THEN 'retry_wait' WHEN 10 THEN 'sent' WHEN 11 THEN 'ambiguous'
                   WHEN 12 THEN 'dead' WHEN 13 THEN 'cancelled' ELSE 'redacted' END END,
    txn, queued_at, attempts, CASE WHEN step = 1 THEN 0 ELSE next_at END,
    CASE WHEN step = 1 THEN 0 ELSE first_attempt_at END, device, event_type,
    CASE WHEN step = 1 THEN NULL ELSE wire END, step = 2,
    CASE WHEN state < 10 AND step = 1 THEN '' ELSE error END, CASE WHEN state < 10 AND step = 1 THEN '' ELSE code END, event_id,
    CASE WHEN state < 10 AND step = 1 THEN queued_at WHEN state < 10 THEN 0 WHEN rested_at = 0 THEN queued_at ELSE rested_at END
FROM outbox;

DELETE FROM sqlite_sequence WHERE name = 'outbox_new';
INSERT INTO sqlite_sequence (name, seq) SELECT 'outbox_new', max(coalesce((SELECT max(id) FROM outbox), 0),
    coalesce((SELECT max(id) FROM messages), 0), coalesce((SELECT CAST(value AS INTEGER) FROM settings WHERE key = 'last_id'), 0));
DELETE FROM settings WHERE key = 'last_id';

INSERT INTO outbox_new (kind, after, room, state, txn, queued_at, attempts, next_at, first_attempt_at, device, error, code)
SELECT 2, id, room, CASE state WHEN 0 THEN 'queued' ELSE 'retry_wait' END, txn || 'f', queued_at, 0, next_at, first_attempt_at, device, error, code
FROM outbox WHERE state < 10 AND step = 1 ORDER BY id;

DROP TABLE outbox;
ALTER TABLE outbox_new RENAME TO outbox;
-- In the order in which a room gets them: a follow-up has the place of its message.
CREATE INDEX outbox_pending ON outbox (room, (CASE WHEN after > 0 THEN after ELSE id END), id) WHERE final_at = 0;
CREATE INDEX outbox_trouble ON outbox (state, id) WHERE state IN ('ambiguous', 'dead');
CREATE INDEX outbox_after ON outbox (after) WHERE after > 0;
CREATE INDEX applications_room ON applications (room_id);
