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
    name          TEXT    NOT NULL,
    folded        TEXT    NOT NULL, -- the name, the same for all spellings in lower and upper case
    password_hash TEXT    NOT NULL,
    matrix_id     TEXT    NOT NULL DEFAULT '',
    subject       TEXT    NOT NULL DEFAULT '', -- the person at the identity provider: issuer, space, sub
    is_admin      INTEGER NOT NULL DEFAULT 0,
    created_at    INTEGER NOT NULL,
    rooms_until   INTEGER NOT NULL DEFAULT 0 -- by when the rooms that were made for the user are within the limit
);
CREATE UNIQUE INDEX users_folded ON users (folded);

CREATE TABLE rooms (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    address     TEXT    NOT NULL, -- room id or alias; "new:…" for a room that the bot is still to make
    room_id     TEXT    NOT NULL DEFAULT '',
    name        TEXT    NOT NULL DEFAULT '',
    encrypted   INTEGER NOT NULL DEFAULT 0,
    blocked     TEXT    NOT NULL DEFAULT '',
    blocked_as  TEXT    NOT NULL DEFAULT '',
    blocked_at  INTEGER NOT NULL DEFAULT 0,
    replaced    TEXT    NOT NULL DEFAULT '', -- the room that this one took the place of: what was attempted before may be there
    replaced_at INTEGER NOT NULL DEFAULT 0,
    checked_at  INTEGER NOT NULL DEFAULT 0, -- when the room was looked at last
    notifies    INTEGER NOT NULL DEFAULT 0 -- the bot may notify everybody there (@room)
);
CREATE UNIQUE INDEX rooms_address ON rooms (address);
CREATE INDEX rooms_room ON rooms (room_id) WHERE room_id <> '';

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
    dead                 INTEGER NOT NULL DEFAULT 0,
    description          TEXT    NOT NULL DEFAULT '',
    default_format       TEXT    NOT NULL DEFAULT 'auto',
    show_sender          TEXT    NOT NULL DEFAULT 'auto',
    has_image            INTEGER NOT NULL DEFAULT 0,
    room_right           TEXT    NOT NULL DEFAULT '', -- own (the bot made the room), member (the owner was in it), admin (an administrator set it)
    owner_absent         INTEGER NOT NULL DEFAULT 0, -- the owner is known not to be in the room
    mention              TEXT    NOT NULL DEFAULT 'auto',
    secret               BLOB, -- encrypted
    lifecycle            TEXT    NOT NULL DEFAULT 'edit', -- see post.Lifecycle
    group_threads        INTEGER NOT NULL DEFAULT 0, -- the alerts of a group share a thread
    critical_retry       INTEGER NOT NULL DEFAULT 0, -- between reminders of critical alerts; 0: there are none
    escalate_after       INTEGER NOT NULL DEFAULT 0, -- reminders
    escalate_to          TEXT    NOT NULL DEFAULT '', -- Matrix IDs and rooms, separated by spaces
    template_title       TEXT    NOT NULL DEFAULT '', -- see template.Set
    template_text        TEXT    NOT NULL DEFAULT '',
    template_priority    TEXT    NOT NULL DEFAULT '',
    template_link        TEXT    NOT NULL DEFAULT '',
    digest               INTEGER NOT NULL DEFAULT 0, -- for so long messages are collected after one that is sent
    repository_digest    INTEGER NOT NULL DEFAULT 0, -- the same for the messages about one repository of a registry
    quiet_hours          TEXT    NOT NULL DEFAULT '',
    time_zone            TEXT    NOT NULL DEFAULT '',
    quiet_summary        INTEGER NOT NULL DEFAULT 0, -- after the quiet hours a message lists those that mentioned nobody
    heartbeat            INTEGER NOT NULL DEFAULT 0, -- longest time between two heartbeats; 0: it needs none
    heartbeat_grace      INTEGER NOT NULL DEFAULT 0,
    heartbeat_since      INTEGER NOT NULL DEFAULT 0 -- when the interval was set
);
CREATE UNIQUE INDEX applications_token ON applications (token_hash) WHERE token_hash IS NOT NULL;
CREATE INDEX applications_old_token ON applications (old_token_hash) WHERE old_token_hash IS NOT NULL;
CREATE UNIQUE INDEX applications_name ON applications (owner_id, name) WHERE deleted_at = 0;
CREATE INDEX applications_room ON applications (room_id);

CREATE TABLE application_images (
    application_id INTEGER PRIMARY KEY REFERENCES applications (id) ON DELETE CASCADE,
    type           TEXT   NOT NULL,
    data           BLOB NOT NULL
);

CREATE TABLE sessions (
    token_hash BLOB PRIMARY KEY,
    user_id    INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    csrf       TEXT   NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX sessions_user ON sessions (user_id);

CREATE TABLE clients (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id    INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name       TEXT    NOT NULL,
    token_hash BLOB    NOT NULL,
    created_at INTEGER NOT NULL,
    last_used  INTEGER NOT NULL DEFAULT 0,
    idle_limit INTEGER NOT NULL DEFAULT 0 -- milliseconds without use after which the client is deleted; 0: never
);
CREATE UNIQUE INDEX clients_token ON clients (token_hash);
CREATE INDEX clients_user ON clients (user_id);

-- What users have deleted from their own lists: single messages, and all up to one. The rooms keep them.
CREATE TABLE hidden_messages (
    message_id INTEGER NOT NULL,
    user_id    INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    PRIMARY KEY (message_id, user_id)
) WITHOUT ROWID;

CREATE TABLE hidden_through (
    user_id        INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    application_id INTEGER NOT NULL, -- 0: all applications
    message_id     INTEGER NOT NULL,
    PRIMARY KEY (user_id, application_id)
) WITHOUT ROWID;

CREATE TABLE outbox (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    kind             INTEGER NOT NULL, -- see post.Kind
    target           INTEGER NOT NULL DEFAULT 0, -- of a follow-up: the message
    place            INTEGER NOT NULL DEFAULT 0, -- it is sent in the place of the entry with that id; 0: in its own
    room             INTEGER NOT NULL,
    application_id   INTEGER NOT NULL,
    accepted_at      INTEGER NOT NULL,
    source           TEXT    NOT NULL,
    thread           TEXT    NOT NULL DEFAULT '', -- the conversation within the application
    key              TEXT    NOT NULL DEFAULT '', -- what the message is about, by the name that the sender gives it
    resolves         INTEGER NOT NULL DEFAULT 0, -- what the message is about is over
    event_at         INTEGER NOT NULL DEFAULT 0, -- when it happened, by the clock of the sender
    trace            TEXT    NOT NULL DEFAULT '', -- the span of the request
    title            TEXT    NOT NULL,
    body             TEXT    NOT NULL,
    content_type     TEXT    NOT NULL,
    extras           TEXT    NOT NULL DEFAULT '',
    attachments      TEXT    NOT NULL DEFAULT '', -- JSON: what is attached
    priority         INTEGER NOT NULL DEFAULT 0,
    gotify_scale     INTEGER NOT NULL DEFAULT 0, -- the priority as it was sent on Gotify's scale, plus one
    mentions         TEXT    NOT NULL DEFAULT '', -- who is mentioned instead of the application's choice
    note             TEXT    NOT NULL DEFAULT '', -- a line of the relay's own above the body
    txn              TEXT    NOT NULL,
    queued_at        INTEGER NOT NULL, -- accepted or delivered again: age counts from here
    state            TEXT    NOT NULL, -- see post.State
    attempts         INTEGER NOT NULL DEFAULT 0,
    next_at          INTEGER NOT NULL DEFAULT 0,
    first_attempt_at INTEGER NOT NULL DEFAULT 0, -- the earliest time at which a copy may have reached the homeserver
    final_at         INTEGER NOT NULL DEFAULT 0, -- 0 while the entry is on its way
    device           TEXT    NOT NULL DEFAULT '',
    event_type       TEXT    NOT NULL DEFAULT '',
    wire             BLOB, -- the event, once its bytes must stay the same
    cut              INTEGER NOT NULL DEFAULT 0, -- wire doesn't hold the whole message
    root             TEXT    NOT NULL DEFAULT '', -- of a message that is a reply in a thread: the first event of that
    revised_at       INTEGER NOT NULL DEFAULT 0, -- the content was replaced while the entry waited
    error            TEXT    NOT NULL DEFAULT '',
    code             TEXT    NOT NULL DEFAULT '',
    event_id         TEXT    NOT NULL DEFAULT '', -- of a removal: the event to remove
    marker           TEXT    NOT NULL DEFAULT '' -- of a removal without event_id: the transaction id of the event
);
-- In the order in which a room gets them.
CREATE INDEX outbox_pending ON outbox (room, (CASE WHEN place > 0 THEN place ELSE id END), id, application_id) WHERE final_at = 0;
CREATE INDEX outbox_delayed ON outbox (next_at) WHERE state = 'queued' AND next_at > 0; -- messages to be sent later
CREATE INDEX outbox_trouble ON outbox (state, id) WHERE state IN ('ambiguous', 'dead');
CREATE INDEX outbox_target ON outbox (target) WHERE target > 0;
CREATE INDEX outbox_application ON outbox (application_id, id) WHERE kind IN (0, 3, 5);
CREATE INDEX outbox_thread ON outbox (application_id, thread, id) WHERE thread <> '';

-- What fires and ends, see post.Alert.
CREATE TABLE alerts (
    message_id     INTEGER PRIMARY KEY, -- the message that shows it
    application_id INTEGER NOT NULL,
    key            TEXT    NOT NULL DEFAULT '',
    episode        INTEGER NOT NULL DEFAULT 0,
    began_at       INTEGER NOT NULL,
    changed_at     INTEGER NOT NULL,
    closed_at      INTEGER NOT NULL DEFAULT 0,
    times          INTEGER NOT NULL DEFAULT 1,
    priority       INTEGER NOT NULL DEFAULT 0,
    said           BLOB,
    retry          INTEGER NOT NULL DEFAULT 0,
    expires_at     INTEGER NOT NULL DEFAULT 0,
    next_at        INTEGER NOT NULL DEFAULT 0,
    repeats        INTEGER NOT NULL DEFAULT 0,
    acknowledged_at INTEGER NOT NULL DEFAULT 0,
    acknowledged_by TEXT   NOT NULL DEFAULT ''
);
CREATE INDEX alerts_due ON alerts (next_at) WHERE next_at > 0;
CREATE INDEX alerts_key ON alerts (application_id, key, message_id) WHERE key <> '';
CREATE INDEX alerts_open ON alerts (message_id) WHERE closed_at = 0;

-- The content of what is attached to messages, until it is sent.
CREATE TABLE attachments (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    message_id INTEGER NOT NULL, -- 0 until the message is accepted
    created_at INTEGER NOT NULL
);
CREATE INDEX attachments_message ON attachments (message_id);

CREATE TABLE attachment_chunks (
    attachment_id INTEGER NOT NULL REFERENCES attachments (id) ON DELETE CASCADE,
    n             INTEGER NOT NULL, -- from 0
    data          BLOB    NOT NULL,
    PRIMARY KEY (attachment_id, n)
);

-- What was posted for an application last, for previews of its templates.
CREATE TABLE payloads (
    application_id INTEGER PRIMARY KEY REFERENCES applications (id) ON DELETE CASCADE,
    data           BLOB NOT NULL -- encrypted
);

-- The latest messages of an application, or of a topic in it, see post.Digest.
CREATE TABLE digests (
    application_id INTEGER NOT NULL REFERENCES applications (id) ON DELETE CASCADE,
    topic          TEXT    NOT NULL DEFAULT '',
    began_at       INTEGER NOT NULL,
    message_id     INTEGER NOT NULL DEFAULT 0, -- the message that collects the others
    times          INTEGER NOT NULL DEFAULT 0,
    lines          TEXT    NOT NULL DEFAULT '',
    priority       INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (application_id, topic)
);

CREATE TABLE idempotency (
    application_id INTEGER NOT NULL,
    key            TEXT   NOT NULL,
    hash           BLOB NOT NULL,
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

CREATE TABLE pending_joins (
    room_id  TEXT PRIMARY KEY,
    inviter  TEXT NOT NULL DEFAULT '',
    replaces TEXT NOT NULL DEFAULT '',
    via      TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;

-- What a device of the bot keeps to encrypt with. The values are encrypted with a key that is not in the database.
CREATE TABLE crypto (
    device TEXT  NOT NULL,
    kind   TEXT  NOT NULL,
    key    TEXT  NOT NULL,
    value  BLOB  NOT NULL,
    PRIMARY KEY (device, kind, key)
) WITHOUT ROWID;
