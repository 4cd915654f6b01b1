-- How an application's messages look where they do not say so themselves, and what people see of the application.
ALTER TABLE applications ADD COLUMN description    TEXT NOT NULL DEFAULT '';
ALTER TABLE applications ADD COLUMN default_format TEXT NOT NULL DEFAULT 'auto'; -- auto, markdown, plain, html
ALTER TABLE applications ADD COLUMN show_sender    TEXT NOT NULL DEFAULT 'auto'; -- auto, always, never
CREATE TABLE application_images (
    application_id INTEGER PRIMARY KEY REFERENCES applications (id) ON DELETE CASCADE,
    type           TEXT NOT NULL,
    data           BLOB NOT NULL
);
