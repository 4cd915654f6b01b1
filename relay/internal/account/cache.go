package account

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
	"slipway/relay/internal/store"
)

// cache holds all applications and users: there are few, and each message needs them.
type cache struct {
	mu     sync.RWMutex
	apps   map[int64]*App
	tokens map[[sha256.Size]byte]*App
	users  map[int64]store.User

	clients clientCache
}

// App is an application in the cache. Its row is replaced, never changed.
type App struct {
	row    atomic.Pointer[store.Application]
	Bucket request.Bucket // of its messages
	kept   atomic.Int64   // when its last payload was kept, in Unix milliseconds
}

// Row returns the application's row.
func (a *App) Row() *store.Application { return a.row.Load() }

// HideTokens returns a text without the token of a request, which may be a client's, and without the application's own tokens: a reader
// of a message may not be allowed to send one.
func (a *App) HideTokens(text, token string) string {
	text = post.HideToken(text, token)
	row, sum := a.Row(), sha256.Sum256([]byte(token))
	if string(sum[:]) != string(row.TokenHash) || time.Now().UnixMilli() < row.OldTokenUntil {
		text = post.HideHashed(text, row.TokenHash, row.OldTokenHash)
	}
	return text
}

func newCache() *cache {
	return &cache{
		apps: map[int64]*App{}, tokens: map[[sha256.Size]byte]*App{}, users: map[int64]store.User{},
		clients: newClientCache(),
	}
}

// load reads all users and applications.
func (c *cache) load(ctx context.Context, s *store.Store) error {
	revision, err := s.Revision(ctx) // read first, so that concurrent changes are read again
	if err != nil {
		return fmt.Errorf("read the accounts: %w", err)
	}
	users, err := s.Users(ctx)
	if err != nil {
		return fmt.Errorf("read the users: %w", err)
	}
	apps, err := s.Applications(ctx)
	if err != nil {
		return fmt.Errorf("read the applications: %w", err)
	}
	clients, err := s.Clients(ctx, 0)
	if err != nil {
		return fmt.Errorf("read the clients: %w", err)
	}
	there := make(map[int64]bool, len(apps))
	for i := range apps {
		there[apps[i].ID] = true
		c.putApp(apps[i])
	}
	for _, gone := range c.all(func(a *store.Application) bool { return !there[a.ID] }) {
		c.dropApp(gone.Row().ID)
	}
	c.replaceUsers(users)
	c.replaceClients(clients)
	s.Know(revision)
	return nil
}

func (c *cache) replaceUsers(users []store.User) {
	all := make(map[int64]store.User, len(users))
	for _, u := range users {
		all[u.ID] = u
	}
	c.mu.Lock()
	c.users = all
	c.mu.Unlock()
}

func (c *cache) putUser(u store.User) {
	c.mu.Lock()
	c.users[u.ID] = u
	c.mu.Unlock()
}

func (c *cache) dropUser(id int64) {
	c.mu.Lock()
	delete(c.users, id)
	for _, cl := range c.clients.byID {
		if cl.row.UserID == id {
			c.clients.drop(cl)
		}
	}
	c.mu.Unlock()
}

func (c *cache) user(id int64) (store.User, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	u, ok := c.users[id]
	return u, ok
}

// putApp adds an application or replaces its row, and returns it.
func (c *cache) putApp(row store.Application) *App {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.apps[row.ID]
	if a == nil {
		a = &App{}
		c.apps[row.ID] = a
	} else {
		c.dropTokens(a)
	}
	a.row.Store(&row)
	for _, h := range [][]byte{row.TokenHash, row.OldTokenHash} {
		if len(h) == sha256.Size {
			c.tokens[[sha256.Size]byte(h)] = a
		}
	}
	return a
}

// dropApp removes an application and marks it as deleted for requests that already hold it.
func (c *cache) dropApp(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.apps[id]; a != nil {
		c.dropTokens(a)
		delete(c.apps, id)
		row := *a.Row()
		row.DeletedAt = time.Now().UnixMilli()
		a.row.Store(&row)
	}
}

// dropTokens removes an application's tokens. The caller must hold c.mu.
func (c *cache) dropTokens(a *App) {
	for _, h := range [][]byte{a.Row().TokenHash, a.Row().OldTokenHash} {
		if len(h) == sha256.Size {
			delete(c.tokens, [sha256.Size]byte(h))
		}
	}
}

// byToken returns the application of a token, nil if there is none. The lookup is by hash, so its time tells nothing
// about existing tokens.
func (c *cache) byToken(token string, now time.Time) *App {
	h := sha256.Sum256([]byte(token))
	c.mu.RLock()
	a := c.tokens[h]
	c.mu.RUnlock()
	if a == nil {
		return nil
	}
	row := a.Row()
	if string(row.TokenHash) == string(h[:]) || now.UnixMilli() < row.OldTokenUntil {
		return a
	}
	return nil
}

func (c *cache) app(id int64) *App {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.apps[id]
}

// all returns the applications for which want is true.
func (c *cache) all(want func(*store.Application) bool) []*App {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var found []*App
	for _, a := range c.apps {
		if want(a.Row()) {
			found = append(found, a)
		}
	}
	return found
}

// Reload reads all accounts again.
func (s *Accounts) Reload(ctx context.Context) error {
	err := s.cache.load(ctx, s.store)
	s.store.Nudge() // streams whose credential is gone end
	return err
}

// Refresh reads the accounts again if another relay has changed them.
func (s *Accounts) Refresh(ctx context.Context) error {
	s.edit.Lock()
	defer s.edit.Unlock()
	now, err := s.store.Revision(ctx)
	if err != nil || now == s.store.Known() {
		return err
	}
	return s.Reload(ctx)
}

// update changes users or applications. The caller must hold s.edit.
func (s *Accounts) update(ctx context.Context, change func(*store.Tx) error) error {
	return s.stale(ctx, s.store.Update(ctx, change))
}

// stale turns store.ErrStale into a refusal, after it has read the accounts again.
func (s *Accounts) stale(ctx context.Context, err error) error {
	if !errors.Is(err, store.ErrStale) {
		return err
	}
	return &refusal.Error{
		Kind: refusal.KindUnavailable, Message: "Another relay has changed the accounts at the same time. Try again.", RetryAfter: refusal.RetryAfter,
		Err: errors.Join(err, s.Reload(ctx)),
	}
}

// Admit takes n messages from an application's rate limit, or returns how long to wait.
func (s *Accounts) Admit(ctx context.Context, app *App, n int, now time.Time, rate, burst int) time.Duration {
	if s.store.Shared() && rate > 0 {
		wait, err := s.store.Count(ctx, app.bucketKey(), n, rate, cmp.Or(burst, rate))
		if err == nil {
			return wait
		}
	}
	for taken := range n {
		if wait := app.Bucket.Take(now, rate, burst); wait > 0 {
			for range taken {
				app.Bucket.GiveBack()
			}
			return wait
		}
	}
	return 0
}

// GiveBack returns n messages to an application's rate limit.
func (s *Accounts) GiveBack(ctx context.Context, app *App, n, rate int) {
	if s.store.Shared() && rate > 0 {
		_ = s.store.GiveBack(ctx, app.bucketKey(), n) // on an error the application waits a little longer
		return
	}
	for range n {
		app.Bucket.GiveBack()
	}
}

func (a *App) bucketKey() string { return "app " + strconv.FormatInt(a.Row().ID, 10) }

// App returns an application by its id; nil if there is none.
func (s *Accounts) App(id int64) *App { return s.cache.app(id) }

// Apps returns all applications.
func (s *Accounts) Apps() []*App { return s.cache.all(func(*store.Application) bool { return true }) }
