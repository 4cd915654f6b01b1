-- What was counted of messages that the retention has removed: with it the totals of an application can be counted
-- anew after a crash.
ALTER TABLE applications ADD COLUMN purged_accepted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE applications ADD COLUMN purged_sent INTEGER NOT NULL DEFAULT 0;
UPDATE applications SET
    purged_accepted = max(0, accepted - (SELECT count(*) FROM messages m WHERE m.application_id = applications.id)),
    purged_sent     = max(0, sent - (SELECT count(*) FROM messages m JOIN outbox o ON o.id = m.id
                                     WHERE m.application_id = applications.id AND (o.state IN (10, 14) OR o.step = 1)));
