-- What a device of the bot keeps to encrypt with. The values are encrypted with a key that is not in the database.
CREATE TABLE crypto (
    device text  NOT NULL,
    kind   text  NOT NULL,
    key    text  NOT NULL,
    value  bytea NOT NULL,
    PRIMARY KEY (device, kind, key)
);

-- Messages waited in encrypted rooms for a relay that can encrypt.
UPDATE rooms SET blocked = '', blocked_as = '', blocked_at = 0 WHERE blocked_as = 'encrypted';
