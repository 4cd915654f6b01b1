package account

import (
	"context"
	"crypto/sha256"
	"strconv"
	"strings"
	"time"

	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

const (
	maxClients   = 100             // of one user
	clientPrefix = "C"             // of a client's token; those of applications begin with another letter
	usedEvery    = 5 * time.Minute // how exact a client's last use is
)

// Client is a program that reads the messages of a user's applications with a token of its own.
type Client struct {
	ID        int64
	Name      string
	CreatedAt time.Time
	LastUsed  time.Time     // zero if it was never used
	IdleLimit time.Duration // time without use after which it is deleted; 0 means never
}

// Expires returns when c will be deleted if it is not used before, zero for never.
func (c Client) Expires() time.Time {
	if c.IdleLimit == 0 {
		return time.Time{}
	}
	last := c.CreatedAt
	if c.LastUsed.After(last) {
		last = c.LastUsed
	}
	return last.Add(c.IdleLimit)
}

// IssuedClient is a client with its new token. The token is shown once; only its hash is stored.
type IssuedClient struct {
	Client
	Token string
}

func showClient(r store.Client) Client {
	return Client{ID: r.ID, Name: r.Name, CreatedAt: post.Time(r.CreatedAt), LastUsed: post.Time(r.LastUsed), IdleLimit: time.Duration(r.IdleLimit) * time.Millisecond}
}

// Clients lists the clients of the user v.
func (s *Accounts) Clients(ctx context.Context, v Principal) ([]Client, error) {
	if v.UserID == 0 {
		return nil, errUsersOnly
	}
	rows, err := s.store.Clients(ctx, v.UserID)
	if err != nil {
		return nil, refusal.Unreadable(err)
	}
	all := make([]Client, len(rows))
	for i, r := range rows {
		all[i] = showClient(r)
	}
	return all, nil
}

var errUsersOnly = refusal.Forbidden("Only users have clients.")

// CreateClient makes a client of the user v. It is deleted after idle without use, unless that is 0.
func (s *Accounts) CreateClient(ctx context.Context, v Principal, name string, idle time.Duration) (IssuedClient, error) {
	if v.UserID == 0 || v.ClientID != 0 {
		return IssuedClient{}, refusal.Forbidden("A client's token can't make clients: log in as the user.")
	}
	name, err := checkName(name)
	if err != nil {
		return IssuedClient{}, err
	}
	token := clientPrefix + base62(post.TokenLength-1)
	hash := sha256.Sum256([]byte(token))
	row := store.Client{UserID: v.UserID, Name: name, TokenHash: hash[:], CreatedAt: time.Now().UnixMilli(), IdleLimit: idle.Milliseconds()}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		row.ID = 0
		if _, err := tx.User(v.UserID); err != nil {
			return unread(err, "user")
		}
		switch n, err := tx.CountClients(v.UserID); {
		case err != nil:
			return err
		case n >= maxClients:
			return refusal.Conflict("", "A user may have "+strconv.Itoa(maxClients)+" clients: delete some first.")
		}
		return tx.CreateClient(&row)
	})
	if err != nil {
		return IssuedClient{}, refusal.Unwritable(err)
	}
	return IssuedClient{showClient(row), token}, nil
}

// UpdateClient changes the name of a client of v, and its idle limit unless idle is nil. A client may change itself only.
func (s *Accounts) UpdateClient(ctx context.Context, v Principal, id int64, name string, idle *time.Duration) (Client, error) {
	name, err := checkName(name)
	if err != nil {
		return Client{}, err
	}
	row, err := s.changeClient(ctx, v, id, func(tx *store.Tx, row *store.Client) error {
		row.Name = name
		if idle != nil {
			row.IdleLimit = idle.Milliseconds()
		}
		return tx.UpdateClient(row)
	})
	return showClient(row), err
}

// DeleteClient removes a client of v, whose token stops working and whose streams end. A client may delete itself only.
func (s *Accounts) DeleteClient(ctx context.Context, v Principal, id int64) error {
	_, err := s.changeClient(ctx, v, id, func(tx *store.Tx, _ *store.Client) error { return tx.DeleteClient(id) })
	return err
}

// changeClient changes a client that v may change, and returns it as it is then.
func (s *Accounts) changeClient(ctx context.Context, v Principal, id int64, change func(*store.Tx, *store.Client) error) (row store.Client, err error) {
	if v.ClientID != 0 && v.ClientID != id {
		return row, refusal.NotFound("client")
	}
	err = s.store.Update(ctx, func(tx *store.Tx) (err error) {
		if row, err = tx.Client(v.UserID, id); err != nil {
			return unread(err, "client")
		}
		return change(tx, &row)
	})
	return row, refusal.Unwritable(err)
}

// DeleteIdleClients removes the clients that have not been used within their idle limits.
func (s *Accounts) DeleteIdleClients(ctx context.Context, now time.Time) error {
	return s.store.DeleteIdleClients(ctx, now.UnixMilli(), usedEvery.Milliseconds())
}

// IsClientToken reports whether a token has the form of a client's.
func IsClientToken(token string) bool { return strings.HasPrefix(token, clientPrefix) }

// ClientViewer returns the principal of a client's token.
func (s *Accounts) ClientViewer(ctx context.Context, token string) (Principal, error) {
	hash := sha256.Sum256([]byte(token))
	var u store.User
	c, err := lookUp(ctx, token, func(ctx context.Context) (store.Client, error) {
		c, err := s.store.ClientOf(ctx, hash[:])
		if err == nil {
			u, err = s.store.User(ctx, c.UserID)
		}
		return c, err
	})
	if err != nil {
		return Principal{}, err
	}
	if now := time.Now().UnixMilli(); now-c.LastUsed >= usedEvery.Milliseconds() {
		_ = s.store.ClientUsed(ctx, c.ID, now) // if it fails, the next use records it
	}
	return Principal{UserID: u.ID, Name: u.Name, ClientID: c.ID}, nil
}
