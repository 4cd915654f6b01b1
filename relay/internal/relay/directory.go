package relay

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"slipway/relay/internal/store"
)

// directory holds all applications and users in memory: they are few, and each message needs them.
type directory struct {
	mu     sync.RWMutex
	apps   map[int64]*entryApp
	tokens map[[sha256.Size]byte]*entryApp
	users  map[int64]store.User
}

// entryApp is an application in the directory. row is replaced, never changed.
type entryApp struct {
	row    atomic.Pointer[store.Application]
	bucket bucket

	accepted, sent, dead, lastUsed atomic.Int64
}

func newDirectory() *directory {
	return &directory{
		apps: map[int64]*entryApp{}, tokens: map[[sha256.Size]byte]*entryApp{}, users: map[int64]store.User{},
	}
}

// load reads everything.
func (d *directory) load(ctx context.Context, s *store.Store) error {
	var users []store.User
	if err := s.Read(ctx).Find(&users).Error; err != nil {
		return fmt.Errorf("read the users: %w", err)
	}
	for _, u := range users {
		d.putUser(u)
	}
	var apps []store.Application
	if err := s.Read(ctx).Where("deleted_at = 0").Find(&apps).Error; err != nil {
		return fmt.Errorf("read the applications: %w", err)
	}
	for i := range apps {
		d.putApp(apps[i])
	}
	return nil
}

func (d *directory) putUser(u store.User) {
	d.mu.Lock()
	d.users[u.ID] = u
	d.mu.Unlock()
}

func (d *directory) dropUser(id int64) {
	d.mu.Lock()
	delete(d.users, id)
	d.mu.Unlock()
}

func (d *directory) user(id int64) (store.User, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	u, ok := d.users[id]
	return u, ok
}

// putApp adds an application or replaces its row, and returns it. Counts stay as they are in memory.
func (d *directory) putApp(row store.Application) *entryApp {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.apps[row.ID]
	if a == nil {
		a = &entryApp{}
		a.accepted.Store(row.Accepted)
		a.sent.Store(row.Sent)
		a.dead.Store(row.Dead)
		a.lastUsed.Store(row.LastUsed)
		d.apps[row.ID] = a
	} else {
		d.dropTokens(a)
	}
	a.row.Store(&row)
	for _, h := range [][]byte{row.TokenHash, row.OldTokenHash} {
		if len(h) == sha256.Size {
			d.tokens[[sha256.Size]byte(h)] = a
		}
	}
	return a
}

func (d *directory) dropApp(id int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := d.apps[id]; a != nil {
		d.dropTokens(a)
		delete(d.apps, id)
	}
}

// dropTokens forgets an application's tokens. d.mu is held.
func (d *directory) dropTokens(a *entryApp) {
	for _, h := range [][]byte{a.row.Load().TokenHash, a.row.Load().OldTokenHash} {
		if len(h) == sha256.Size {
			delete(d.tokens, [sha256.Size]byte(h))
		}
	}
}

// byToken returns the application that a token belongs to. The map is asked by the token's hash, so the time it
// takes tells nothing about tokens that exist.
func (d *directory) byToken(token string, now time.Time) *entryApp {
	h := sha256.Sum256([]byte(token))
	d.mu.RLock()
	a := d.tokens[h]
	d.mu.RUnlock()
	if a == nil {
		return nil
	}
	row := a.row.Load()
	if string(row.TokenHash) == string(h[:]) || now.UnixMilli() < row.OldTokenUntil {
		return a
	}
	return nil
}

func (d *directory) app(id int64) *entryApp {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.apps[id]
}

// application returns an application as it is shown, without its room.
func (d *directory) application(id int64) (Application, bool) {
	a := d.app(id)
	if a == nil {
		return Application{}, false
	}
	return d.show(a), true
}

func (d *directory) show(a *entryApp) Application {
	r := a.row.Load()
	owner, _ := d.user(r.OwnerID)
	return Application{
		ID: r.ID, OwnerID: r.OwnerID, OwnerName: owner.Name, OwnerMatrixID: owner.MatrixID, Name: r.Name,
		DefaultPriority: r.DefaultPriority, PriorityScale: Scale(r.PriorityScale), StrictCompatibility: r.StrictCompatibility,
		RateLimit: r.RateLimit, Description: r.Description, DefaultFormat: Format(r.DefaultFormat), ShowSender: ShowSender(r.ShowSender), CreatedAt: at(r.CreatedAt), TokenCreatedAt: at(r.TokenCreatedAt), OldTokenUntil: at(r.OldTokenUntil),
		LastUsed: at(a.lastUsed.Load()), Accepted: a.accepted.Load(), Sent: a.sent.Load(), Dead: a.dead.Load(),
	}
}

// inRoom returns an application whose target is the room with this row.
func (d *directory) inRoom(room int64) (Application, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, a := range d.apps {
		if a.row.Load().RoomID == room {
			r := a.row.Load()
			return Application{ID: r.ID, Name: r.Name, OwnerMatrixID: d.users[r.OwnerID].MatrixID}, true
		}
	}
	return Application{}, false
}

// senderShown tells whether an application's name belongs before the titles of its messages.
func (d *directory) senderShown(id int64) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	app := d.apps[id]
	if app == nil {
		return false
	}
	row := app.row.Load()
	if choice := ShowSender(row.ShowSender); choice != ShowAuto {
		return choice == ShowAlways
	}
	for other, a := range d.apps {
		if other != id && a.row.Load().RoomID == row.RoomID {
			return true
		}
	}
	return false
}

// all returns the applications that pass a test.
func (d *directory) all(want func(*store.Application) bool) []*entryApp {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var found []*entryApp
	for _, a := range d.apps {
		if want(a.row.Load()) {
			found = append(found, a)
		}
	}
	return found
}

// count adds what a commit says.
func (d *directory) count(c store.Commit) {
	for _, e := range c.Accepted {
		if a := d.app(e.ApplicationID); a != nil {
			a.accepted.Add(1)
			a.lastUsed.Store(e.AcceptedAt)
		}
	}
	for _, o := range c.Outcomes {
		a := d.app(o.Entry.ApplicationID)
		switch {
		case a == nil:
		case o.SentNow:
			a.sent.Add(1)
		case o.DeadNow:
			a.dead.Add(1)
		}
	}
}

// at turns a stored time into a time; 0 is the zero time.
func at(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis).UTC()
}
