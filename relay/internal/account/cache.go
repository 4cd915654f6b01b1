package account

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"slipway/relay/internal/limit"
	"slipway/relay/internal/store"
)

// cache holds all applications and users in memory: they are few, and each message needs them.
type cache struct {
	mu     sync.RWMutex
	apps   map[int64]*App
	tokens map[[sha256.Size]byte]*App
	users  map[int64]store.User
}

// App is an application in the cache. Its row is replaced, never changed.
type App struct {
	row    atomic.Pointer[store.Application]
	Bucket limit.Bucket // of its messages
}

// Row returns the application's row.
func (a *App) Row() *store.Application { return a.row.Load() }

func newCache() *cache {
	return &cache{
		apps: map[int64]*App{}, tokens: map[[sha256.Size]byte]*App{}, users: map[int64]store.User{},
	}
}

// load reads everything.
func (c *cache) load(ctx context.Context, s *store.Store) error {
	users, err := s.Users(ctx)
	if err != nil {
		return fmt.Errorf("read the users: %w", err)
	}
	for _, u := range users {
		c.putUser(u)
	}
	apps, err := s.Applications(ctx)
	if err != nil {
		return fmt.Errorf("read the applications: %w", err)
	}
	for i := range apps {
		c.putApp(apps[i])
	}
	return nil
}

func (c *cache) putUser(u store.User) {
	c.mu.Lock()
	c.users[u.ID] = u
	c.mu.Unlock()
}

func (c *cache) dropUser(id int64) {
	c.mu.Lock()
	delete(c.users, id)
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

func (c *cache) dropApp(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.apps[id]; a != nil {
		c.dropTokens(a)
		delete(c.apps, id)
	}
}

// dropTokens forgets an application's tokens. c.mu is held.
func (c *cache) dropTokens(a *App) {
	for _, h := range [][]byte{a.Row().TokenHash, a.Row().OldTokenHash} {
		if len(h) == sha256.Size {
			delete(c.tokens, [sha256.Size]byte(h))
		}
	}
}

// byToken returns the application that a token belongs to. The map is asked by the token's hash, so the time it
// takes tells nothing about tokens that exist.
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

// all returns the applications that pass a test.
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

// Reload reads again what was changed in the database by others.
func (s *Accounts) Reload(ctx context.Context) error { return s.cache.load(ctx, s.store) }

// App returns an application by its id; nil if there is none.
func (s *Accounts) App(id int64) *App { return s.cache.app(id) }

// Shown returns what an application's messages show of it: its name if it belongs before their titles, and its owner's
// Matrix id.
func (s *Accounts) Shown(row *store.Application) (sender, owner string) {
	c := s.cache
	c.mu.RLock()
	defer c.mu.RUnlock()
	owner = c.users[row.OwnerID].MatrixID
	choice := ShowSender(row.ShowSender)
	if choice == ShowAlways {
		return row.Name, owner
	}
	for id, a := range c.apps {
		if choice == ShowAuto && id != row.ID && a.Row().RoomID == row.RoomID {
			return row.Name, owner
		}
	}
	return "", owner
}

// Visible returns the applications that v may see.
func (s *Accounts) Visible(v Principal) []*App { return s.cache.all(v.Sees) }
