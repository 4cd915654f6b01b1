-- What the last look at a room has found, beside what blocks it.
ALTER TABLE rooms ADD COLUMN checked_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE rooms ADD COLUMN notifies   INTEGER NOT NULL DEFAULT 0; -- the bot may notify everybody there (@room)
-- Why an application may send to its room: own (the bot made it), member (its owner was in it when the room was set), admin (an
-- administrator has set it), '' (set before this was asked). Whom priorities 1 and 2 mention: auto, room, owner, none, or Matrix ids.
ALTER TABLE applications ADD COLUMN room_right   TEXT    NOT NULL DEFAULT '';
ALTER TABLE applications ADD COLUMN owner_absent INTEGER NOT NULL DEFAULT 0; -- the owner is known not to be in the room
ALTER TABLE applications ADD COLUMN mention      TEXT    NOT NULL DEFAULT 'auto';
