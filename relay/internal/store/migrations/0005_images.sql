-- Whether an application has a picture, so that a list of them reads none.
ALTER TABLE applications ADD COLUMN has_image INTEGER NOT NULL DEFAULT 0;
