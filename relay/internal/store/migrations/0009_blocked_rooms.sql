-- One word for a room where nothing is sent: blocked.
ALTER TABLE rooms RENAME COLUMN parked    TO blocked;
ALTER TABLE rooms RENAME COLUMN parked_as TO blocked_as;
ALTER TABLE rooms RENAME COLUMN parked_at TO blocked_at;
UPDATE rooms SET blocked_as = 'block' WHERE blocked_as = 'park';
