-- Times are Unix milliseconds; 0 means never.
CREATE TABLE schema_version (
    version    INTEGER PRIMARY KEY,
    applied_at INTEGER NOT NULL
);

CREATE TABLE settings (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE users (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    name          TEXT    NOT NULL COLLATE NOCASE,
    password_hash TEXT    NOT NULL,
    matrix_id     TEXT    NOT NULL DEFAULT '',
    is_admin      INTEGER NOT NULL DEFAULT 0,
    created_at    INTEGER NOT NULL
);
CREATE UNIQUE INDEX users_name ON users (name);

CREATE TABLE rooms (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    address   TEXT    NOT NULL,
    room_id   TEXT    NOT NULL DEFAULT '',
    name      TEXT    NOT NULL DEFAULT '',
    encrypted INTEGER NOT NULL DEFAULT 0,
    parked    TEXT    NOT NULL DEFAULT '',
    parked_as TEXT    NOT NULL DEFAULT '',
    parked_at INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX rooms_address ON rooms (address);

CREATE TABLE applications (
    id                   INTEGER PRIMARY KEY AUTOINCREMENT,
    owner_id             INTEGER NOT NULL REFERENCES users (id),
    name                 TEXT    NOT NULL,
    room_id              INTEGER NOT NULL REFERENCES rooms (id),
    token_hash           BLOB,
    token_created_at     INTEGER NOT NULL DEFAULT 0,
    old_token_hash       BLOB,
    old_token_until      INTEGER NOT NULL DEFAULT 0,
    default_priority     INTEGER NOT NULL DEFAULT 0,
    priority_scale       TEXT    NOT NULL DEFAULT 'auto',
    strict_compatibility INTEGER NOT NULL DEFAULT 0,
    rate_limit           INTEGER NOT NULL DEFAULT 0,
    created_at           INTEGER NOT NULL,
    deleted_at           INTEGER NOT NULL DEFAULT 0,
    last_used            INTEGER NOT NULL DEFAULT 0,
    accepted             INTEGER NOT NULL DEFAULT 0,
    sent                 INTEGER NOT NULL DEFAULT 0,
    dead                 INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX applications_token ON applications (token_hash) WHERE token_hash IS NOT NULL;
CREATE UNIQUE INDEX applications_name ON applications (owner_id, name) WHERE deleted_at = 0;

CREATE TABLE sessions (
    token_hash BLOB    PRIMARY KEY,
    user_id    INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    csrf       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX sessions_user ON sessions (user_id);

-- What was accepted. Ids are given by the writer and never used twice.
CREATE TABLE messages (
    id             INTEGER PRIMARY KEY,
    application_id INTEGER NOT NULL,
    accepted_at    INTEGER NOT NULL,
    priority       INTEGER NOT NULL,
    source         TEXT    NOT NULL,
    title          TEXT    NOT NULL,
    body           TEXT    NOT NULL,
    content_type   TEXT    NOT NULL,
    extras         TEXT
);
CREATE INDEX messages_application ON messages (application_id, id);

-- What is to be done in rooms, in order of id. The row that sends a message has the message's id.
-- state: below 10 is on its way (0 queued, 1 retry_wait), 10 sent, 11 ambiguous, 12 dead, 13 cancelled, 14 redacted.
-- event_type and wire are set as soon as the bytes must stay the same; txn from the beginning.
CREATE TABLE outbox (
    id               INTEGER PRIMARY KEY,
    message_id       INTEGER NOT NULL,
    op               INTEGER NOT NULL,           -- 0 send, 1 redact
    room             INTEGER NOT NULL,           -- rooms.id
    state            INTEGER NOT NULL,
    txn              TEXT    NOT NULL,
    queued_at        INTEGER NOT NULL,           -- accepted, or redelivered: age counts from here
    attempts         INTEGER NOT NULL DEFAULT 0,
    next_at          INTEGER NOT NULL DEFAULT 0,
    step             INTEGER NOT NULL DEFAULT 0, -- 1: the event is sent, its file is still to follow
    first_attempt_at INTEGER NOT NULL DEFAULT 0, -- the earliest time a copy may have reached the homeserver
    device           TEXT    NOT NULL DEFAULT '',
    event_type       TEXT    NOT NULL DEFAULT '',
    wire             BLOB,
    error            TEXT    NOT NULL DEFAULT '',
    code             TEXT    NOT NULL DEFAULT '',
    event_id         TEXT    NOT NULL DEFAULT '',
    rested_at        INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX outbox_pending ON outbox (room, id) WHERE state < 10;
CREATE INDEX outbox_trouble ON outbox (state, id) WHERE state IN (11, 12);
CREATE INDEX outbox_extra ON outbox (message_id) WHERE op > 0;

CREATE TABLE idempotency (
    application_id INTEGER NOT NULL,
    key            TEXT    NOT NULL,
    hash           BLOB    NOT NULL,
    message_id     INTEGER NOT NULL,
    priority       INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,
    PRIMARY KEY (application_id, key)
) WITHOUT ROWID;
CREATE INDEX idempotency_created ON idempotency (created_at);

CREATE TABLE stats (
    hour           INTEGER NOT NULL,
    application_id INTEGER NOT NULL,
    accepted       INTEGER NOT NULL DEFAULT 0,
    sent           INTEGER NOT NULL DEFAULT 0,
    dead           INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (hour, application_id)
) WITHOUT ROWID;
