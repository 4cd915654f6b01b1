package robot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/access"
	"slipway/registry/internal/document"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/storage"
)

const (
	// Interval is how soon all replicas know of a change.
	Interval = 2 * time.Second

	// maxStale is how old what is known may be before no robot is let in: one of them
	// may have been revoked.
	maxStale = 30 * time.Second

	maxRobots = 10_000

	// Bounds of the looks at the storage for robots that are not known.
	lookPause   = 200 * time.Millisecond
	lookTimeout = 2 * time.Second
)

// Errors that callers distinguish.
var (
	ErrUnknown = errors.New("no such robot")
	ErrExists  = errors.New("there is a robot of that name; revoke it first")
	ErrInvalid = errors.New("invalid robot")
	ErrStale   = errors.New("the robots cannot be read from the storage")
)

// Accounts are all robots.
type Accounts struct {
	doc   *document.Document[accounts]
	log   *zap.Logger
	index atomic.Pointer[index]

	looking sync.Mutex
	looked  time.Time // last, under looking
}

type accounts struct {
	Robots []record `json:"robots"`
}

// index finds robots by name in one version of the document.
type index struct {
	of     *accounts
	byName map[string]*indexed
}

type indexed struct {
	*record
	own []access.Grant
}

// New does no I/O.
func New(store storage.Store, log *zap.Logger) *Accounts {
	return &Accounts{doc: document.New[accounts](store, layout.Robots), log: log}
}

// Open reads the robots for the first time.
func Open(ctx context.Context, store storage.Store, log *zap.Logger) (*Accounts, error) {
	a := New(store, log)
	if err := a.doc.Refresh(ctx); err != nil {
		return nil, fmt.Errorf("read the robots: %w", err)
	}
	return a, nil
}

// Watch keeps what is known current until ctx ends.
func (a *Accounts) Watch(ctx context.Context) { a.doc.Watch(ctx, Interval, a.log, "robots") }

// Create adds a robot and returns its secret, which nobody can read again. Errors:
// ErrInvalid, ErrExists. A robot that has expired makes room for another of its name.
func (a *Accounts) Create(ctx context.Context, r Robot) (secret string, err error) {
	now := time.Now().UTC().Truncate(time.Second)
	if err := r.Check(now); err != nil {
		return "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	secret, hash := newSecret()
	r.ID, r.Created = newID(), now
	err = a.doc.Update(ctx, func(all *accounts) error {
		all.Robots = slices.DeleteFunc(all.Robots, func(x record) bool { return x.Name == r.Name && x.Expired(now) })
		switch {
		case slices.ContainsFunc(all.Robots, func(x record) bool { return x.Name == r.Name }):
			return ErrExists
		case len(all.Robots) >= maxRobots:
			return fmt.Errorf("%w: there are %d robots already", ErrInvalid, maxRobots)
		}
		all.Robots = append(all.Robots, record{r, hash})
		return nil
	})
	if errors.Is(err, document.ErrTooLarge) {
		err = fmt.Errorf("%w: all robots together would be too large", ErrInvalid)
	}
	return secret, err
}

// Revoke removes a robot: its secret and its tokens end here at once, and at other
// replicas within Interval. ErrUnknown.
func (a *Accounts) Revoke(ctx context.Context, name string) error {
	return a.doc.Update(ctx, func(all *accounts) error {
		before := len(all.Robots)
		all.Robots = slices.DeleteFunc(all.Robots, func(x record) bool { return x.Name == name })
		if len(all.Robots) == before {
			return ErrUnknown
		}
		return nil
	})
}

// List returns all robots, also those that have expired, by name, as the storage has
// them now.
func (a *Accounts) List(ctx context.Context) ([]Robot, error) {
	if err := a.doc.Refresh(ctx); err != nil {
		return nil, err
	}
	all, _ := a.doc.Last()
	list := make([]Robot, len(all.Robots))
	for i := range all.Robots {
		list[i] = all.Robots[i].Robot
	}
	slices.SortFunc(list, func(x, y Robot) int { return cmp.Compare(x.Name, y.Name) })
	return list, nil
}

// Login returns the id and the rights of the robot whose secret that is. Errors:
// ErrUnknown, also for a wrong secret, and ErrStale.
func (a *Accounts) Login(name string, secret []byte) (id string, own []access.Grant, err error) {
	r, err := a.lookUp(name, func(r *indexed) bool { return r.accepts(secret) })
	if err != nil {
		return "", nil, err
	}
	return r.ID, r.own, nil
}

// Rights returns what the robot with that id may do now. Errors: ErrUnknown, also if
// the name is another robot's by now, and ErrStale.
func (a *Accounts) Rights(name, id string) ([]access.Grant, error) {
	r, err := a.lookUp(name, func(r *indexed) bool { return r.ID == id })
	if err != nil {
		return nil, err
	}
	return r.own, nil
}

// lookUp finds a robot that fits. Before it says that there is none it looks at the
// storage, within bounds: the robot may have been created a moment ago.
func (a *Accounts) lookUp(name string, fits func(*indexed) bool) (*indexed, error) {
	r, err := a.find(name)
	if err == nil && fits(r) {
		return r, nil
	}
	if !a.lookAgain() {
		return nil, cmp.Or(err, ErrUnknown)
	}
	if r, err = a.find(name); err == nil && !fits(r) {
		err = ErrUnknown
	}
	return r, err
}

// lookAgain refreshes what is known, unless that has just been done or somebody else
// does.
func (a *Accounts) lookAgain() bool {
	if !a.looking.TryLock() {
		return false
	}
	defer a.looking.Unlock()
	if time.Since(a.looked) < lookPause {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	err := a.doc.Refresh(ctx)
	a.looked = time.Now()
	return err == nil
}

func (a *Accounts) find(name string) (*indexed, error) {
	all, at := a.doc.Last()
	now := time.Now()
	if all == nil || now.Sub(at) > maxStale {
		return nil, ErrStale
	}
	x := a.index.Load()
	if x == nil || x.of != all {
		x = a.newIndex(all)
		a.index.Store(x)
	}
	r, ok := x.byName[name]
	if !ok || r.Expired(now) {
		return nil, ErrUnknown
	}
	return r, nil
}

func (a *Accounts) newIndex(all *accounts) *index {
	x := &index{of: all, byName: make(map[string]*indexed, len(all.Robots))}
	for i := range all.Robots {
		r := &all.Robots[i]
		grant, err := r.Grant()
		if err != nil {
			a.log.Error("a robot has rights that this version does not know; it may do nothing", zap.String("robot", r.Name), zap.Error(err))
			continue
		}
		x.byName[r.Name] = &indexed{r, []access.Grant{grant}}
	}
	return x
}
