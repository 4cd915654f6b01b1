-- Rooms that the bot is to join, which were a text in settings before.
CREATE TABLE pending_joins (
    room_id  TEXT PRIMARY KEY,
    inviter  TEXT NOT NULL DEFAULT '',
    replaces TEXT NOT NULL DEFAULT '',
    via      TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
INSERT INTO pending_joins (room_id, inviter, replaces, via)
    SELECT j.key, coalesce(j.value ->> 'inviter', ''), coalesce(j.value ->> 'replaces', ''), coalesce(j.value ->> 'via', '')
    FROM settings s, json_each(CASE WHEN json_valid(s.value) THEN s.value ELSE '{}' END) j
    WHERE s.key = 'matrix.invites' AND j.type = 'object';
DELETE FROM settings WHERE key = 'matrix.invites';
