package store

import "context"

// Clients returns the clients of a user, or of all users if user is 0.
func (s *Store) Clients(ctx context.Context, user int64) (all []Client, err error) {
	q := s.rows.WithContext(ctx).Order("id")
	if user != 0 {
		q = q.Where("user_id = ?", user)
	}
	return all, q.Find(&all).Error
}

// CreateClient stores a new client, which gets its id.
func (tx *Tx) CreateClient(c *Client) error {
	return tx.accounts().Create(c).Error
}

// UpdateClient changes a client's name and idle limit.
func (tx *Tx) UpdateClient(c *Client) error {
	return tx.accounts().Model(c).Select("name", "idle_limit").Updates(c).Error
}

// DeleteClient removes a client.
func (tx *Tx) DeleteClient(id int64) error {
	return tx.accounts().Delete(&Client{}, id).Error
}

// IdleClients returns the clients that have not been used for longer than their idle limits and slack, both in milliseconds.
func (s *Store) IdleClients(ctx context.Context, now, slack int64) (all []Client, err error) {
	q := s.rows.WithContext(ctx).Where("idle_limit > 0 AND created_at + idle_limit < ? AND last_used + idle_limit < ?", now-slack, now-slack)
	return all, q.Find(&all).Error
}

// ClientUsed records when a client was last used.
func (s *Store) ClientUsed(ctx context.Context, id, at int64) error {
	return s.Update(ctx, func(tx *Tx) error { return tx.exec(`UPDATE clients SET last_used = ? WHERE id = ?`, at, id) })
}
