-- What a device of the bot keeps to encrypt with. The values are encrypted with a key that is not in the database.
CREATE TABLE crypto (
    device TEXT NOT NULL,
    kind   TEXT NOT NULL,
    key    TEXT NOT NULL,
    value  BLOB NOT NULL,
    PRIMARY KEY (device, kind, key)
) WITHOUT ROWID;

-- Messages waited in encrypted rooms for a relay that can encrypt.
UPDATE rooms SET blocked = '', blocked_as = '', blocked_at = 0 WHERE blocked_as = 'encrypted';
