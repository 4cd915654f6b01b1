package account

import (
	"context"
	"crypto/sha256"
	"strconv"
	"strings"
	"sync/atomic"
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

// client is a client in the cache.
type client struct {
	row  store.Client
	used atomic.Int64 // when its last use was recorded
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
	s.edit.Lock()
	defer s.edit.Unlock()
	if _, there := s.cache.user(v.UserID); !there {
		return IssuedClient{}, refusal.NotFound("user")
	}
	if s.cache.clientsOf(v.UserID) >= maxClients {
		return IssuedClient{}, refusal.Conflict("", "A user may have "+strconv.Itoa(maxClients)+" clients: delete some first.")
	}
	row := store.Client{UserID: v.UserID, Name: name, TokenHash: hash[:], CreatedAt: time.Now().UnixMilli(), IdleLimit: idle.Milliseconds()}
	if err := s.update(ctx, func(tx *store.Tx) error { row.ID = 0; return tx.CreateClient(&row) }); err != nil {
		return IssuedClient{}, refusal.Unwritable(err)
	}
	s.cache.putClient(row)
	return IssuedClient{showClient(row), token}, nil
}

// UpdateClient changes the name of a client of v, and its idle limit unless idle is nil. A client may change itself only.
func (s *Accounts) UpdateClient(ctx context.Context, v Principal, id int64, name string, idle *time.Duration) (Client, error) {
	name, err := checkName(name)
	if err != nil {
		return Client{}, err
	}
	s.edit.Lock()
	defer s.edit.Unlock()
	c := s.cache.client(v, id)
	if c == nil {
		return Client{}, refusal.NotFound("client")
	}
	row := c.row
	row.Name = name
	if idle != nil {
		row.IdleLimit = idle.Milliseconds()
	}
	if err := s.update(ctx, func(tx *store.Tx) error { return tx.UpdateClient(&row) }); err != nil {
		return Client{}, refusal.Unwritable(err)
	}
	s.cache.putClient(row)
	return showClient(row), nil
}

// DeleteClient removes a client of v, whose token stops working and whose streams end. A client may delete itself only.
func (s *Accounts) DeleteClient(ctx context.Context, v Principal, id int64) error {
	s.edit.Lock()
	defer s.edit.Unlock()
	c := s.cache.client(v, id)
	if c == nil {
		return refusal.NotFound("client")
	}
	return s.removeClient(ctx, c)
}

// removeClient deletes a client. The caller must hold s.edit.
func (s *Accounts) removeClient(ctx context.Context, c *client) error {
	if err := s.update(ctx, func(tx *store.Tx) error { return tx.DeleteClient(c.row.ID) }); err != nil {
		return refusal.Unwritable(err)
	}
	s.cache.dropClient(c)
	s.store.Nudge()
	return nil
}

// DeleteIdleClients removes the clients that have not been used within their idle limits.
func (s *Accounts) DeleteIdleClients(ctx context.Context, now time.Time) error {
	idle, err := s.store.IdleClients(ctx, now.UnixMilli(), usedEvery.Milliseconds())
	if err != nil {
		return err
	}
	s.edit.Lock()
	defer s.edit.Unlock()
	for _, row := range idle {
		c := s.cache.client(Principal{UserID: row.UserID}, row.ID)
		if c == nil { // deleted meanwhile
			continue
		}
		if err := s.removeClient(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// IsClientToken reports whether a token has the form of a client's.
func IsClientToken(token string) bool { return strings.HasPrefix(token, clientPrefix) }

// ClientViewer returns the principal of a client's token.
func (s *Accounts) ClientViewer(ctx context.Context, token string) (Principal, error) {
	c, err := lookUp(ctx, s, token, func() *client { return s.cache.clientOf(token) })
	if err != nil {
		return Principal{}, err
	}
	u, there := s.cache.user(c.row.UserID)
	if !there {
		return Principal{}, errToken
	}
	s.clientUsed(ctx, c)
	return Principal{UserID: u.ID, Name: u.Name, ClientID: c.row.ID}, nil
}

// clientUsed records that a client was used, unless that is known already. If it fails, the next use records it.
func (s *Accounts) clientUsed(ctx context.Context, c *client) {
	now, last := time.Now().UnixMilli(), c.used.Load()
	if now-last < usedEvery.Milliseconds() || !c.used.CompareAndSwap(last, now) {
		return
	}
	if err := s.store.ClientUsed(ctx, c.row.ID, now); err != nil {
		c.used.CompareAndSwap(now, last)
	}
}

// clientCache holds all clients.
type clientCache struct {
	byID    map[int64]*client
	byToken map[[sha256.Size]byte]*client
}

func newClientCache() clientCache {
	return clientCache{byID: map[int64]*client{}, byToken: map[[sha256.Size]byte]*client{}}
}

// put adds a client, or replaces it and keeps what is known of its last use.
func (c *clientCache) put(row store.Client) {
	fresh := &client{row: row}
	fresh.used.Store(row.LastUsed)
	if known := c.byID[row.ID]; known != nil {
		fresh.used.Store(max(row.LastUsed, known.used.Load()))
	}
	c.byID[row.ID], c.byToken[[sha256.Size]byte(row.TokenHash)] = fresh, fresh
}

func (c *clientCache) drop(gone *client) {
	delete(c.byID, gone.row.ID)
	delete(c.byToken, [sha256.Size]byte(gone.row.TokenHash))
}

func (c *cache) replaceClients(rows []store.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := newClientCache()
	for _, r := range rows {
		if known := c.clients.byID[r.ID]; known != nil {
			all.byID[r.ID] = known
		}
		all.put(r)
	}
	c.clients = all
}

func (c *cache) putClient(row store.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients.put(row)
}

func (c *cache) dropClient(gone *client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients.drop(gone)
}

// clientOf returns the client of a token, nil if there is none.
func (c *cache) clientOf(token string) *client {
	h := sha256.Sum256([]byte(token))
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.clients.byToken[h]
}

// client returns a client that v may change, nil if there is none.
func (c *cache) client(v Principal, id int64) *client {
	c.mu.RLock()
	defer c.mu.RUnlock()
	found := c.clients.byID[id]
	if found == nil || found.row.UserID != v.UserID || v.ClientID != 0 && v.ClientID != id {
		return nil
	}
	return found
}

// clientsOf counts the clients of a user.
func (c *cache) clientsOf(user int64) (n int) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, cl := range c.clients.byID {
		if cl.row.UserID == user {
			n++
		}
	}
	return n
}
