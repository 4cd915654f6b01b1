BEGIN TRANSACTION;
CREATE TABLE application_images (
    application_id INTEGER PRIMARY KEY REFERENCES applications (id) ON DELETE CASCADE,
    type           TEXT NOT NULL,
    data           BLOB NOT NULL
);
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
, purged_accepted INTEGER NOT NULL DEFAULT 0, purged_sent INTEGER NOT NULL DEFAULT 0, description    TEXT NOT NULL DEFAULT '', default_format TEXT NOT NULL DEFAULT 'auto', show_sender    TEXT NOT NULL DEFAULT 'auto', has_image INTEGER NOT NULL DEFAULT 0, room_right   TEXT    NOT NULL DEFAULT '', owner_absent INTEGER NOT NULL DEFAULT 0, mention      TEXT    NOT NULL DEFAULT 'auto');
INSERT INTO "applications" VALUES(1,1,'sealed',1,X'25CB4D25519B9846C472FD766ABDAF677DED4D8ECC618FEC0247511013DFFB70',1795383981197,NULL,0,0,'auto',0,0,1795383981197,0,1795383981574,2,0,0,0,0,'','auto','auto',0,'admin',0,'auto');
CREATE TABLE idempotency (
    application_id INTEGER NOT NULL,
    key            TEXT    NOT NULL,
    hash           BLOB    NOT NULL,
    message_id     INTEGER NOT NULL,
    priority       INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,
    PRIMARY KEY (application_id, key)
) WITHOUT ROWID;
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
INSERT INTO "messages" VALUES(1,1,1795383981217,0,'api','','first, from before','',NULL);
INSERT INTO "messages" VALUES(2,1,1795383981574,0,'api','','second, from before','',NULL);
CREATE TABLE "outbox" (
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
INSERT INTO "outbox" VALUES(1,0,0,1,'retry_wait','rq0rvzg2rtsp5.r0xme9ch2thx',1795383981217,0,1795383981579,0,'NZHUXUQTEM','m.room.message',NULL,0,'the room is encrypted and the relay would send plain text','','',0);
INSERT INTO "outbox" VALUES(2,0,0,1,'queued','r1jgldqsrpt7re.1lzge8s4tbb37',1795383981574,0,0,0,'','',NULL,0,'','','',0);
CREATE TABLE pending_joins (
    room_id  TEXT PRIMARY KEY,
    inviter  TEXT NOT NULL DEFAULT '',
    replaces TEXT NOT NULL DEFAULT '',
    via      TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE TABLE rooms (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    address   TEXT    NOT NULL,
    room_id   TEXT    NOT NULL DEFAULT '',
    name      TEXT    NOT NULL DEFAULT '',
    encrypted INTEGER NOT NULL DEFAULT 0,
    blocked    TEXT    NOT NULL DEFAULT '',
    blocked_as TEXT    NOT NULL DEFAULT '',
    blocked_at INTEGER NOT NULL DEFAULT 0
, replaced TEXT NOT NULL DEFAULT '', replaced_at INTEGER NOT NULL DEFAULT 0, checked_at INTEGER NOT NULL DEFAULT 0, notifies   INTEGER NOT NULL DEFAULT 0);
INSERT INTO "rooms" VALUES(1,'ROOM','ROOM','s1-room',1,'the room is encrypted and the relay would send plain text','encrypted',1795383981573,'',0,1795383981603,0);
CREATE TABLE schema_version (
    version    INTEGER PRIMARY KEY,
    applied_at INTEGER NOT NULL
);
INSERT INTO "schema_version" VALUES(1,1795383980);
INSERT INTO "schema_version" VALUES(2,1795383980);
INSERT INTO "schema_version" VALUES(3,1795383980);
INSERT INTO "schema_version" VALUES(4,1795383980);
INSERT INTO "schema_version" VALUES(5,1795383980);
INSERT INTO "schema_version" VALUES(6,1795383980);
INSERT INTO "schema_version" VALUES(7,1795383980);
INSERT INTO "schema_version" VALUES(8,1795383980);
INSERT INTO "schema_version" VALUES(9,1795383980);
CREATE TABLE sessions (
    token_hash BLOB    PRIMARY KEY,
    user_id    INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    csrf       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE settings (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;
INSERT INTO "settings" VALUES('checked_at','1795383980206');
INSERT INTO "settings" VALUES('matrix.session','{"homeserver":"http://127.0.0.1:1","user_id":"BOT","device_id":"NZHUXUQTEM","access_token":"gone"}');
INSERT INTO "settings" VALUES('matrix.sync','s11_1_0_1_1_1_1_7_0_1_1_1_1_1');
INSERT INTO "settings" VALUES('outbox.clean','0');
INSERT INTO "settings" VALUES('outbox.device','NZHUXUQTEM');
CREATE TABLE stats (
    hour           INTEGER NOT NULL,
    application_id INTEGER NOT NULL,
    accepted       INTEGER NOT NULL DEFAULT 0,
    sent           INTEGER NOT NULL DEFAULT 0,
    dead           INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (hour, application_id)
) WITHOUT ROWID;
INSERT INTO "stats" VALUES(498717,1,2,0,0);
CREATE TABLE users (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    name          TEXT    NOT NULL COLLATE NOCASE,
    password_hash TEXT    NOT NULL,
    matrix_id     TEXT    NOT NULL DEFAULT '',
    is_admin      INTEGER NOT NULL DEFAULT 0,
    created_at    INTEGER NOT NULL
);
INSERT INTO "users" VALUES(1,'admin','$argon2id$v=19$m=19456,t=2,p=1$Qg43UYekgbBCsM9tsCTzmw$FDSwOZX+Ot/f/l+fuR63bVlzrIOhWf/Y/EURL8SM1x4','OWNER',1,1795383980140);
CREATE UNIQUE INDEX users_name ON users (name);
CREATE UNIQUE INDEX rooms_address ON rooms (address);
CREATE UNIQUE INDEX applications_token ON applications (token_hash) WHERE token_hash IS NOT NULL;
CREATE UNIQUE INDEX applications_name ON applications (owner_id, name) WHERE deleted_at = 0;
CREATE INDEX sessions_user ON sessions (user_id);
CREATE INDEX messages_application ON messages (application_id, id);
CREATE INDEX idempotency_created ON idempotency (created_at);
CREATE INDEX outbox_pending ON outbox (room, (CASE WHEN after > 0 THEN after ELSE id END), id) WHERE final_at = 0;
CREATE INDEX outbox_trouble ON outbox (state, id) WHERE state IN ('ambiguous', 'dead');
CREATE INDEX outbox_after ON outbox (after) WHERE after > 0;
CREATE INDEX applications_room ON applications (room_id);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('outbox',2);
INSERT INTO "sqlite_sequence" VALUES('users',1);
INSERT INTO "sqlite_sequence" VALUES('rooms',1);
INSERT INTO "sqlite_sequence" VALUES('applications',1);
COMMIT;
