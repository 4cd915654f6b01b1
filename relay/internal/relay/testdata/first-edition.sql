BEGIN TRANSACTION;
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
, purged_accepted INTEGER NOT NULL DEFAULT 0, purged_sent INTEGER NOT NULL DEFAULT 0);
INSERT INTO "applications" VALUES(1,1,'good',1,X'2E4BB137C8098851BC54F04FC9F1B4655ADF206ED605F42617ECB488CFA179D7',1795338568146,NULL,0,0,'auto',0,0,1795338568146,0,1795338581006,4,4,0,0,0);
INSERT INTO "applications" VALUES(2,1,'blocked',2,X'1BFA52FC94233AEC910A0D726BB8D1A0FE4C24993ACDEAE06FFC594BC609BCD3',1795338568149,NULL,0,0,'auto',0,0,1795338568149,0,1795338571205,3,0,0,0,0);
INSERT INTO "applications" VALUES(3,1,'lost',3,X'C189B6FE17EF48F1E31BE621AF99E6C45383E3FE76CDB957F4CE18235DA71905',1795338568151,NULL,0,0,'auto',0,0,1795338568151,0,1795338582036,4,0,0,0,0);
INSERT INTO "applications" VALUES(4,1,'doubt',4,X'0A8C16D994B53615AAA08C1B2CD6EE543A22A8BFBF5A026A24C39E26DB5BB9A2',1795338568152,NULL,0,0,'auto',0,0,1795338568152,0,1795338572229,1,0,0,0,0);
INSERT INTO "applications" VALUES(5,1,'unsure',5,X'8B10A6A7B50FEB4F47DC0396BF7ED8EA81C6544E4B43D8931EBE46E37500F7F6',1795338568153,NULL,0,0,'auto',0,0,1795338568153,0,1795338572232,1,0,0,0,0);
INSERT INTO "applications" VALUES(6,1,'dead',6,X'E58B6CD54798559BCF29F1C1B525D1B91F1022F7340C0AF571FAD5FF063DE7C1',1795338568154,NULL,0,0,'auto',0,0,1795338568154,0,1795338581001,2,1,1,0,0);
CREATE TABLE arrived (room, device, txn, event_id, body);
INSERT INTO "arrived" VALUES('!good:hs','SINK','r2yndiwf80wx6y.wz9402lrxa3w','$1','sent');
INSERT INTO "arrived" VALUES('!good:hs','SINK','rfxx3qwrkmyt.34loygnu91hnq','$2','removed');
INSERT INTO "arrived" VALUES('!good:hs','SINK','r3hkufn7ezhrpl.1wgaiwuctizr','$3','long long long long long long long long ');
INSERT INTO "arrived" VALUES('!good:hs','SINK','r3hkufn7ezhrpl.1wgaiwuctizrf','$4','message.md');
INSERT INTO "arrived" VALUES('!unsure:hs','SINK','r1l79wstlp63qk.kwe1me3hqxer','$5','lost after it arrived, another device');
INSERT INTO "arrived" VALUES('!dead:hs','SINK2','rb3fn2hl3zkcf.gxywkgyyew1p','$6','withdrawn, not removed yet');
INSERT INTO "arrived" VALUES('!good:hs','SINK2','r145cfjz4kxt6s.1tgbuq7f0szks','$7','long long long long long long long long ');
INSERT INTO "arrived" VALUES('!lost:hs','SINK2','r2fll3fvzzif9d.1miuh114bfpaw','$8','lost after it arrived');
CREATE TABLE idempotency (
    application_id INTEGER NOT NULL,
    key            TEXT    NOT NULL,
    hash           BLOB    NOT NULL,
    message_id     INTEGER NOT NULL,
    priority       INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,
    PRIMARY KEY (application_id, key)
) WITHOUT ROWID;
INSERT INTO "idempotency" VALUES(1,'key of sent',X'9D5AE38F72F514DA4E92FA50EA2F3414DBEED266CBB72602B444F4E5AF9D173C',1,0,1795338569157);
INSERT INTO "idempotency" VALUES(2,'key of long long long long',X'90804CF4933F86C1016479205BDEC521326426DBA9E6171EAB737C2F0A715A76',8,0,1795338571205);
INSERT INTO "idempotency" VALUES(3,'key of waits behind it 0',X'B476791DF9C489EFB4F3AC9D783DCAA6020D9C48C20AFDA48AF4B2072F87FA49',15,0,1795338582032);
INSERT INTO "idempotency" VALUES(3,'key of waits behind it 1',X'BF9BD44224FE5B9AE01A9A828899382322CB2139212790A690E408C3949EB2A4',16,0,1795338582034);
INSERT INTO "idempotency" VALUES(3,'key of waits behind it 2',X'D7389AB2720183102FADA05708867B3F19A5E8FBA1950BF382805CA5228D6826',17,0,1795338582036);
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
INSERT INTO "messages" VALUES(1,1,1795338569157,0,'api','','sent','',NULL);
INSERT INTO "messages" VALUES(2,1,1795338569160,0,'api','','removed','',NULL);
INSERT INTO "messages" VALUES(3,1,1795338569162,0,'api','','with its file','',NULL);
INSERT INTO "messages" VALUES(4,6,1795338569165,0,'api','','never taken','',NULL);
INSERT INTO "messages" VALUES(6,2,1795338571176,0,'api','','first in a blocked room','',NULL);
INSERT INTO "messages" VALUES(7,2,1795338571192,0,'api','','cancelled while it waits','',NULL);
INSERT INTO "messages" VALUES(8,2,1795338571205,0,'api','','cut and not sent yet','',NULL);
INSERT INTO "messages" VALUES(9,4,1795338572229,0,'api','','lost before it arrived, cancelled','',NULL);
INSERT INTO "messages" VALUES(10,5,1795338572232,0,'api','','lost after it arrived, another device','',NULL);
INSERT INTO "messages" VALUES(11,6,1795338581001,0,'api','','withdrawn, not removed yet','',NULL);
INSERT INTO "messages" VALUES(12,1,1795338581006,0,'api','','without its file yet','',NULL);
INSERT INTO "messages" VALUES(14,3,1795338582026,0,'api','','lost after it arrived','',NULL);
INSERT INTO "messages" VALUES(15,3,1795338582032,0,'api','','waits behind it 0','',NULL);
INSERT INTO "messages" VALUES(16,3,1795338582034,0,'api','','waits behind it 1','',NULL);
INSERT INTO "messages" VALUES(17,3,1795338582036,0,'api','','waits behind it 2','',NULL);
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
INSERT INTO "outbox" VALUES(1,1,0,1,10,'r2yndiwf80wx6y.wz9402lrxa3w',1795338569157,1,0,0,0,'','',NULL,'','','$1',1795338569252);
INSERT INTO "outbox" VALUES(2,2,0,1,14,'rfxx3qwrkmyt.34loygnu91hnq',1795338569160,1,0,0,0,'','',NULL,'','','$2',1795338569300);
INSERT INTO "outbox" VALUES(3,3,0,1,10,'r3hkufn7ezhrpl.1wgaiwuctizr',1795338569162,2,0,1,0,'SINK','m.room.message',NULL,'','','$3',1795338569444);
INSERT INTO "outbox" VALUES(4,4,0,6,12,'rouvxmbozhbkl.8kkac7tf7yr5',1795338569165,1,0,0,0,'SINK','m.room.message',NULL,'the homeserver does not accept the event','M_BAD_JSON','',1795338569252);
INSERT INTO "outbox" VALUES(5,2,1,1,10,'r9c70bpux39x9.39mvetv5tar1m',1795338571167,1,0,0,0,'','',NULL,'','','$2',1795338571172);
INSERT INTO "outbox" VALUES(6,6,0,2,1,'r1aylzdf5c0zzg.1zt3lxuk7mwxw',1795338571176,0,1795339375333,0,0,'SINK','m.room.message',NULL,'the bot is not in the room','M_FORBIDDEN','',0);
INSERT INTO "outbox" VALUES(7,7,0,2,13,'r2p6s93cmms6wt.cfpjc11ikmbq',1795338571192,0,0,0,0,'','',NULL,'','','',1795338572222);
INSERT INTO "outbox" VALUES(8,8,0,2,0,'r15c44pi2sbnez.1ucdr8sukdn8w',1795338571205,0,0,0,0,'','',NULL,'','','',0);
INSERT INTO "outbox" VALUES(9,9,0,4,13,'r3o67cc5tz4crs.26b8n04gmyffg',1795338572229,2,1795338573717,0,1795338572230,'SINK','m.room.message',NULL,'It was withdrawn after an attempt whose answer was lost: it may be in the room.','','',1795338572946);
INSERT INTO "outbox" VALUES(10,10,0,5,11,'r1l79wstlp63qk.kwe1me3hqxer',1795338572232,2,0,0,1795338572238,'SINK','m.room.message',X'7B22626F6479223A226C6F737420616674657220697420617272697665642C20616E6F7468657220646576696365222C22696F2E736C69707761792E72656C6179223A7B226D223A2272316C37397773746C703633716B2E6B7765316D65336871786572227D2C226D2E6D656E74696F6E73223A7B7D2C226D736774797065223A226D2E74657874227D','It cannot be told whether the message arrived: look into the room, then redeliver or cancel it.','','',1795338578788);
INSERT INTO "outbox" VALUES(11,11,0,6,10,'rb3fn2hl3zkcf.gxywkgyyew1p',1795338581001,1,0,0,0,'','',NULL,'','','$6',1795338581088);
INSERT INTO "outbox" VALUES(12,12,0,1,1,'r145cfjz4kxt6s.1tgbuq7f0szks',1795338581006,3,1795338583620,1,1795338581112,'SINK2','m.room.message',NULL,'the homeserver failed','M_UNKNOWN','$7',0);
INSERT INTO "outbox" VALUES(13,11,1,6,1,'r32q6niv68ub6b.25pg0uohtv6q1',1795338582012,2,1795338583730,0,1795338582014,'','',NULL,'the homeserver failed','M_UNKNOWN','$6',0);
INSERT INTO "outbox" VALUES(14,14,0,3,1,'r2fll3fvzzif9d.1miuh114bfpaw',1795338582026,3,1795338583268,0,1795338582029,'SINK2','m.room.message',X'7B22626F6479223A226C6F73742061667465722069742061727269766564222C22696F2E736C69707761792E72656C6179223A7B226D223A227232666C6C3366767A7A696639642E316D6975683131346266706177227D2C226D2E6D656E74696F6E73223A7B7D2C226D736774797065223A226D2E74657874227D','the connection to the homeserver broke','','',0);
INSERT INTO "outbox" VALUES(15,15,0,3,0,'r370ijmwau4tx4.2l4yjnoaqmgl8',1795338582032,0,0,0,0,'','',NULL,'','','',0);
INSERT INTO "outbox" VALUES(16,16,0,3,0,'r2dc3gzzelqb7t.ykcc25md1506',1795338582034,0,0,0,0,'','',NULL,'','','',0);
INSERT INTO "outbox" VALUES(17,17,0,3,0,'r11dz2io885akk.xjfx4ju0b6mu',1795338582036,0,0,0,0,'','',NULL,'','','',0);
CREATE TABLE rooms (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    address   TEXT    NOT NULL,
    room_id   TEXT    NOT NULL DEFAULT '',
    name      TEXT    NOT NULL DEFAULT '',
    encrypted INTEGER NOT NULL DEFAULT 0,
    parked    TEXT    NOT NULL DEFAULT '',
    parked_as TEXT    NOT NULL DEFAULT '',
    parked_at INTEGER NOT NULL DEFAULT 0
, replaced TEXT NOT NULL DEFAULT '', replaced_at INTEGER NOT NULL DEFAULT 0);
INSERT INTO "rooms" VALUES(1,'!good:hs','!good:hs','',0,'','',0,'',0);
INSERT INTO "rooms" VALUES(2,'!blocked:hs','!blocked:hs','',0,'the bot is not in the room','join',1795338571397,'',0);
INSERT INTO "rooms" VALUES(3,'!lost:hs','!lost:hs','',0,'','',0,'',0);
INSERT INTO "rooms" VALUES(4,'!doubt:hs','!doubt:hs','',0,'','',0,'',0);
INSERT INTO "rooms" VALUES(5,'!unsure:hs','!unsure:hs','',0,'','',0,'',0);
INSERT INTO "rooms" VALUES(6,'!dead:hs','!dead:hs','',0,'','',0,'',0);
CREATE TABLE schema_version (
    version    INTEGER PRIMARY KEY,
    applied_at INTEGER NOT NULL
);
INSERT INTO "schema_version" VALUES(1,1795338567);
INSERT INTO "schema_version" VALUES(2,1795338567);
INSERT INTO "schema_version" VALUES(3,1795338567);
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
INSERT INTO "settings" VALUES('checked_at','1795338577808');
INSERT INTO "settings" VALUES('matrix.session','{"homeserver":"http://127.0.0.1:18099","user_id":"@bot:hs","device_id":"SINK2","access_token":"token2"}');
INSERT INTO "settings" VALUES('matrix.sync','s1');
INSERT INTO "settings" VALUES('outbox.clean','0');
INSERT INTO "settings" VALUES('outbox.device','SINK2');
CREATE TABLE stats (
    hour           INTEGER NOT NULL,
    application_id INTEGER NOT NULL,
    accepted       INTEGER NOT NULL DEFAULT 0,
    sent           INTEGER NOT NULL DEFAULT 0,
    dead           INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (hour, application_id)
) WITHOUT ROWID;
INSERT INTO "stats" VALUES(498705,1,4,4,0);
INSERT INTO "stats" VALUES(498705,2,3,0,0);
INSERT INTO "stats" VALUES(498705,3,4,0,0);
INSERT INTO "stats" VALUES(498705,4,1,0,0);
INSERT INTO "stats" VALUES(498705,5,1,0,0);
INSERT INTO "stats" VALUES(498705,6,2,1,1);
CREATE TABLE users (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    name          TEXT    NOT NULL COLLATE NOCASE,
    password_hash TEXT    NOT NULL,
    matrix_id     TEXT    NOT NULL DEFAULT '',
    is_admin      INTEGER NOT NULL DEFAULT 0,
    created_at    INTEGER NOT NULL
);
INSERT INTO "users" VALUES(1,'admin','$argon2id$v=19$m=19456,t=2,p=1$/mHiUNj3+xO9kmkDzm09Fg$2XG7vqTrwW0qJmRQ1ZhQcKaevw0aJvzB4yfJOGTzudk','@admin:hs',1,1795338567185);
CREATE UNIQUE INDEX users_name ON users (name);
CREATE UNIQUE INDEX rooms_address ON rooms (address);
CREATE UNIQUE INDEX applications_token ON applications (token_hash) WHERE token_hash IS NOT NULL;
CREATE UNIQUE INDEX applications_name ON applications (owner_id, name) WHERE deleted_at = 0;
CREATE INDEX sessions_user ON sessions (user_id);
CREATE INDEX messages_application ON messages (application_id, id);
CREATE INDEX outbox_pending ON outbox (room, id) WHERE state < 10;
CREATE INDEX outbox_trouble ON outbox (state, id) WHERE state IN (11, 12);
CREATE INDEX outbox_extra ON outbox (message_id) WHERE op > 0;
CREATE INDEX idempotency_created ON idempotency (created_at);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('users',1);
INSERT INTO "sqlite_sequence" VALUES('rooms',6);
INSERT INTO "sqlite_sequence" VALUES('applications',6);
COMMIT;
