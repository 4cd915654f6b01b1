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

	accepted, sent, dead, lastUsed atomic.Int64
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
	var users []store.User
	if err := s.Read(ctx).Find(&users).Error; err != nil {
		return fmt.Errorf("read the users: %w", err)
	}
	for _, u := range users {
		c.putUser(u)
	}
	var apps []store.Application
	if err := s.Read(ctx).Where("deleted_at = 0").Find(&apps).Error; err != nil {
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

// putApp adds an application or replaces its row, and returns it. Counts stay as they are in memory.
func (c *cache) putApp(row store.Application) *App {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.apps[row.ID]
	if a == nil {
		a = &App{}
		a.accepted.Store(row.Accepted)
		a.sent.Store(row.Sent)
		a.dead.Store(row.Dead)
		a.lastUsed.Store(row.LastUsed)
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

// application returns an application as it is shown, without its room.
func (c *cache) application(id int64) (Application, bool) {
	a := c.app(id)
	if a == nil {
		return Application{}, false
	}
	return c.show(a), true
}

func (c *cache) show(a *App) Application {
	r := a.Row()
	owner, _ := c.user(r.OwnerID)
	return Application{
		ID: r.ID, OwnerID: r.OwnerID, OwnerName: owner.Name, OwnerMatrixID: owner.MatrixID, Name: r.Name,
		DefaultPriority: r.DefaultPriority, PriorityScale: Scale(r.PriorityScale), StrictCompatibility: r.StrictCompatibility,
		RateLimit: r.RateLimit, Description: r.Description, DefaultFormat: Format(r.DefaultFormat), ShowSender: ShowSender(r.ShowSender), HasImage: r.HasImage, CreatedAt: store.Time(r.CreatedAt), TokenCreatedAt: store.Time(r.TokenCreatedAt), OldTokenUntil: store.Time(r.OldTokenUntil),
		LastUsed: store.Time(a.lastUsed.Load()), Accepted: a.accepted.Load(), Sent: a.sent.Load(), Dead: a.dead.Load(),
	}
}

// inRoom returns an application whose target is the room with this row.
func (c *cache) inRoom(room int64) (Application, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, a := range c.apps {
		if a.Row().RoomID == room {
			r := a.Row()
			return Application{ID: r.ID, Name: r.Name, OwnerMatrixID: c.users[r.OwnerID].MatrixID}, true
		}
	}
	return Application{}, false
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

// Owner returns the Matrix id of an application's owner; false if there is no such application.
func (s *Accounts) Owner(id int64) (matrixID string, ok bool) {
	app, ok := s.cache.application(id)
	return app.OwnerMatrixID, ok
}

// InRoom returns an application whose target is the room with this row.
func (s *Accounts) InRoom(room int64) (Application, bool) { return s.cache.inRoom(room) }

// SenderShown returns an application's name if it belongs before the titles of its messages, else "".
func (s *Accounts) SenderShown(id int64) string {
	c := s.cache
	c.mu.RLock()
	defer c.mu.RUnlock()
	app := c.apps[id]
	if app == nil {
		return ""
	}
	row := app.Row()
	choice := ShowSender(row.ShowSender)
	if choice == ShowAlways {
		return row.Name
	}
	for other, a := range c.apps {
		if choice == ShowAuto && other != id && a.Row().RoomID == row.RoomID {
			return row.Name
		}
	}
	return ""
}

// Visible returns the applications that v may see.
func (s *Accounts) Visible(v Principal) []*App { return s.cache.all(v.Sees) }

// Count adds what a commit says.
func (s *Accounts) Count(c store.Commit) {
	for _, e := range c.Accepted {
		if a := s.cache.app(e.ApplicationID); a != nil {
			a.accepted.Add(1)
			a.lastUsed.Store(e.AcceptedAt)
		}
	}
	for _, o := range c.Outcomes {
		a := s.cache.app(o.Entry.ApplicationID)
		switch {
		case a == nil:
		case o.SentNow:
			a.sent.Add(1)
		case o.DeadNow:
			a.dead.Add(1)
		}
	}
}

// CountDead adds messages of an application that were given up.
func (s *Accounts) CountDead(id, n int64) {
	if a := s.cache.app(id); a != nil {
		a.dead.Add(n)
	}
}
