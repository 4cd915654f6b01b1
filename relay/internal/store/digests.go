package store

import (
	"context"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
)

// Digest returns the digest of a topic of an application, and keeps others from changing it; an empty one if there is none.
func (tx *Tx) Digest(application int64, topic string) (d post.Digest, err error) {
	d.ApplicationID, d.Topic = application, topic
	return d, tx.db.Clauses(forUpdate).Table("digests").Where("application_id = ? AND topic = ?", application, topic).Limit(1).Find(&d).Error
}

// SaveDigest stores the digest of its topic.
func (tx *Tx) SaveDigest(d post.Digest) error {
	return tx.upsert("digests", &d, "application_id", "topic")
}

// Muted returns messages of an application that mentioned nobody because of the hour and were not withdrawn, the latest first.
func (s *Store) Muted(ctx context.Context, application, from, to int64, limit int) (all []post.Entry, err error) {
	return all, s.rows.WithContext(ctx).Table("outbox").Where("application_id = ? AND kind"+isRead+" AND kind <> ? AND priority = 1 AND mentions = ?", application, post.KindEdit, format.Nobody).
		Where("state NOT IN "+unreadable).Where("queued_at >= ? AND queued_at < ?", from, to).Order("id DESC").Limit(limit).Find(&all).Error
}
