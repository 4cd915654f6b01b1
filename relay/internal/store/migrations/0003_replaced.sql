-- The room that a room took the place of, and when: what was attempted before may be there.
ALTER TABLE rooms ADD COLUMN replaced TEXT NOT NULL DEFAULT '';
ALTER TABLE rooms ADD COLUMN replaced_at INTEGER NOT NULL DEFAULT 0;
-- A delivered message that had failed before kept the old reason. Only what is wrong with its file or its removal is
-- told of it.
UPDATE outbox SET error = '', code = '' WHERE state = 10 AND error <> ''
    AND error NOT LIKE 'The message was cut, and its full text could not be attached: %'
    AND error NOT LIKE 'The event could not be removed from the room: %';
