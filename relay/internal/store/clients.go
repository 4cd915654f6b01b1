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

// RenameClient gives a client another name.
func (tx *Tx) RenameClient(id int64, name string) error {
	return tx.accounts().Model(&Client{}).Where("id = ?", id).Update("name", name).Error
}

// DeleteClient removes a client.
func (tx *Tx) DeleteClient(id int64) error {
	return tx.accounts().Delete(&Client{}, id).Error
}

// ClientUsed records when a client was last used.
func (s *Store) ClientUsed(ctx context.Context, id, at int64) error {
	return s.Update(ctx, func(tx *Tx) error { return tx.exec(`UPDATE clients SET last_used = ? WHERE id = ?`, at, id) })
}
