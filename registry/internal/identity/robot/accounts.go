package robot

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"slipway/registry/internal/access"
	"slipway/registry/internal/document"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/storage"
)

const (
	// Interval is how soon all replicas know of a change.
	Interval = 2 * time.Second

	// maxStale is how old the known robots may be before none is let in: one of them
	// may have been revoked.
	maxStale = 30 * time.Second

	maxRobots = 10_000
	maxRecord = 64 << 10 // bytes
	maxReads  = 16       // at the same time

	// Bounds of the reads of robots that aren't known.
	lookPause   = 200 * time.Millisecond
	lookTimeout = 2 * time.Second
)

// Errors that callers distinguish.
var (
	ErrUnknown = errors.New("no such robot")
	errExpired = fmt.Errorf("%w any more: it has expired", ErrUnknown)
	ErrExists  = errors.New("there is a robot of that name; revoke it first")
	ErrInvalid = errors.New("invalid robot")
	ErrStale   = errors.New("the robots cannot be read from the storage")
)

// Accounts are all robots. Each is an object of its own, so that revoking one is a
// deletion, which a full disk can't prevent.
type Accounts struct {
	store storage.Store
	log   *zap.Logger

	known atomic.Pointer[known]
	used  sync.Map // name → time.Time of the last login here

	// changing is held from the read of what is going to be known until it is, so that
	// no older reading brings a robot back that was revoked here.
	changing sync.Mutex
	looked   time.Time // for a robot that wasn't known, under changing
}

// known are the robots at one moment. It never changes.
type known struct {
	byName map[string]*Account
	at     time.Time
}

// Account is a robot that may log in.
type Account struct {
	Robot
	Own []access.Grant

	hash    string
	version string // of the object; "" = must be read again
	broken  bool   // it can't be understood and may do nothing
}

// New does no I/O.
func New(store storage.Store, log *zap.Logger) *Accounts { return &Accounts{store: store, log: log} }

// Open reads the robots for the first time.
func Open(ctx context.Context, store storage.Store, log *zap.Logger) (*Accounts, error) {
	a := New(store, log)
	if err := a.refresh(ctx); err != nil {
		return nil, fmt.Errorf("read the robots: %w", err)
	}
	return a, nil
}

// Watch keeps the known robots current until ctx ends.
func (a *Accounts) Watch(ctx context.Context) {
	document.Poll(ctx, Interval, a.log, "robots", a.refresh)
}

func keyOf(name string) string { return layout.Robots + "/" + name }

// refresh lists the robots and reads those that are new or have changed.
func (a *Accounts) refresh(ctx context.Context) error {
	a.changing.Lock()
	defer a.changing.Unlock()
	next := &known{byName: map[string]*Account{}, at: time.Now()}
	before := a.all()
	var unread []string
	for info, err := range a.store.List(ctx, layout.Robots, storage.ListOptions{}) {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(info.Key, layout.Robots+"/")
		if info.Prefix || !nameForm.MatchString(name) {
			continue
		}
		if old := before[name]; old != nil && old.version != "" && old.version == info.Version {
			next.byName[name] = old
		} else {
			unread = append(unread, name)
		}
	}
	read, err := a.readAll(ctx, unread)
	for _, account := range read {
		if account != nil {
			next.byName[account.Name] = account
		}
	}
	if err == nil {
		a.known.Store(next)
	}
	return err
}

// readAll reads robots; those that are gone are nil.
func (a *Accounts) readAll(ctx context.Context, robots []string) ([]*Account, error) {
	accounts := make([]*Account, len(robots))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxReads)
	for i, name := range robots {
		group.Go(func() error {
			account, err := a.read(ctx, name)
			if accounts[i] = account; errors.Is(err, ErrUnknown) {
				return nil
			}
			return err
		})
	}
	return accounts, group.Wait()
}

// read reads one robot. ErrUnknown.
func (a *Accounts) read(ctx context.Context, name string) (*Account, error) {
	content, info, err := storage.Read(ctx, a.store, keyOf(name), maxRecord)
	if errors.Is(err, storage.ErrNotExist) {
		return nil, ErrUnknown
	}
	if err != nil {
		return nil, err
	}
	var r record
	err = json.Unmarshal(content, &r)
	if err == nil && r.Name != name {
		err = fmt.Errorf("it is called %q inside", r.Name)
	}
	account := &Account{Robot: r.Robot, hash: r.Hash, version: info.Version}
	if err == nil {
		err = account.takeGrant()
	}
	if err != nil {
		if old := a.all()[name]; old == nil || !old.broken {
			a.log.Error("a robot cannot be understood; it may do nothing", zap.String("robot", name), zap.Error(err))
		}
		account.Name, account.broken = name, true
	}
	return account, nil
}

func (account *Account) takeGrant() error {
	grant, err := account.Grant()
	account.Own = []access.Grant{grant}
	return err
}

// all is the known robots by name; nobody changes it.
func (a *Accounts) all() map[string]*Account {
	if k := a.known.Load(); k != nil {
		return k.byName
	}
	return nil
}

// learn notes what is known of one robot; nil means that there is none. The caller holds
// changing.
func (a *Accounts) learn(name string, account *Account) {
	next := &known{byName: maps.Clone(a.all())}
	if next.byName == nil {
		next.byName = map[string]*Account{}
	}
	if k := a.known.Load(); k != nil {
		next.at = k.at
	}
	if account == nil {
		delete(next.byName, name)
	} else {
		next.byName[name] = account
	}
	a.known.Store(next)
}

// Create adds a robot and returns its secret, which can't be read again. Errors:
// ErrInvalid, ErrExists. A robot that has expired makes room for another of its name.
func (a *Accounts) Create(ctx context.Context, r Robot) (secret string, err error) {
	now := time.Now().UTC().Truncate(time.Second)
	if err := r.Check(now); err != nil {
		return "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if len(a.all()) >= maxRobots {
		return "", fmt.Errorf("%w: there are %d robots already", ErrInvalid, maxRobots)
	}
	switch old, err := a.read(ctx, r.Name); {
	case errors.Is(err, ErrUnknown):
	case err != nil:
		return "", err
	case old.broken || !old.Expired(now):
		return "", ErrExists
	default:
		if err := a.Revoke(ctx, r.Name); err != nil && !errors.Is(err, ErrUnknown) {
			return "", err
		}
	}
	r.ID, r.Created = newID(), now
	secret, err = a.put(ctx, r, storage.IfAbsent())
	if errors.Is(err, storage.ErrConflict) {
		err = ErrExists
	}
	return secret, err
}

// Rotate gives a robot another secret, which can't be read again; the old one and its tokens end
// as with Revoke. From then on the rights of by bound those of the robot, unless by is the robot
// itself, which stays bounded by its maker. ErrUnknown, also for a robot that has changed at the same
// moment.
func (a *Accounts) Rotate(ctx context.Context, name string, by Maker) (secret string, err error) {
	if !nameForm.MatchString(name) {
		return "", ErrUnknown
	}
	old, err := a.read(ctx, name)
	if err != nil {
		return "", err
	}
	if old.broken {
		return "", ErrUnknown
	}
	r := old.Robot
	r.ID = newID()
	if self := (&access.Caller{Kind: access.Robot, Name: name}).String(); by.Name != self {
		r.CreatedBy, r.MakerID, r.Token, r.Orphaned = by.Name, by.ID, by.Token, false
	}
	secret, err = a.put(ctx, r, storage.IfVersion(old.version))
	if errors.Is(err, storage.ErrConflict) {
		err = ErrUnknown
	}
	return secret, err
}

// Orphan ends a robot whose maker has vanished, until it gets another secret. On a full disk it is
// revoked.
func (a *Accounts) Orphan(ctx context.Context, name string) error {
	old, err := a.read(ctx, name)
	if errors.Is(err, ErrUnknown) || err == nil && (old.broken || old.Orphaned || old.version == "") {
		return nil // it is looked at again
	}
	if err != nil {
		return err
	}
	r := old.Robot
	r.Orphaned = true
	content, err := json.Marshal(record{r, old.hash})
	if err == nil {
		err = a.store.Apply(ctx, nil, storage.Stage{{Key: keyOf(name), Content: content, If: storage.IfVersion(old.version)}})
	}
	switch {
	case errors.Is(err, storage.ErrNoSpace):
		return a.Revoke(ctx, name)
	case errors.Is(err, storage.ErrConflict):
		return nil
	case err != nil:
		return err
	}
	account := &Account{Robot: r, hash: old.hash}
	if err := account.takeGrant(); err != nil {
		return err
	}
	a.changing.Lock()
	defer a.changing.Unlock()
	a.learn(name, account)
	return nil
}

// Known are the robots that are known, without I/O.
func (a *Accounts) Known() (list []Robot) {
	for _, account := range a.all() {
		if !account.broken {
			list = append(list, account.Robot)
		}
	}
	return list
}

// put stores a robot with a new secret, and returns that.
func (a *Accounts) put(ctx context.Context, r Robot, condition storage.Condition) (secret string, err error) {
	secret, hash := newSecret()
	content, err := json.Marshal(record{r, hash})
	if err != nil {
		return "", err
	}
	if len(content) > maxRecord {
		return "", fmt.Errorf("%w: it would be larger than %d KiB", ErrInvalid, maxRecord>>10)
	}
	account := &Account{Robot: r, hash: hash}
	if err := account.takeGrant(); err != nil {
		return "", err
	}
	if err := a.store.Apply(ctx, nil, storage.Stage{{Key: keyOf(r.Name), Content: content, If: condition}}); err != nil {
		return "", err
	}
	a.changing.Lock()
	defer a.changing.Unlock()
	a.learn(r.Name, account)
	return secret, nil
}

// LastUsed is when the robot last logged in at this process, the zero time if it never did.
func (a *Accounts) LastUsed(name string) time.Time {
	at, _ := a.used.Load(name)
	t, _ := at.(time.Time)
	return t
}

// Revoke removes a robot: its secret and its tokens end here at once, and at other
// replicas within Interval. ErrUnknown.
func (a *Accounts) Revoke(ctx context.Context, name string) error {
	if !nameForm.MatchString(name) {
		return ErrUnknown
	}
	_, err := a.store.Stat(ctx, keyOf(name))
	if errors.Is(err, storage.ErrNotExist) {
		err = ErrUnknown
	} else if err == nil {
		err = a.store.Apply(ctx, nil, storage.Stage{{Key: keyOf(name), Delete: true}})
	}
	if err != nil && !errors.Is(err, ErrUnknown) {
		return err
	}
	a.changing.Lock()
	defer a.changing.Unlock()
	a.learn(name, nil)
	return err
}

// List returns all robots, also those that have expired, by name, as the storage has
// them now.
func (a *Accounts) List(ctx context.Context) ([]Robot, error) {
	if err := a.refresh(ctx); err != nil {
		return nil, err
	}
	var list []Robot
	for _, account := range a.all() {
		list = append(list, account.Robot)
	}
	slices.SortFunc(list, func(x, y Robot) int { return cmp.Compare(x.Name, y.Name) })
	return list, nil
}

// Login returns the robot with that name and secret. Errors: ErrUnknown, also for a wrong
// secret, and ErrStale.
func (a *Accounts) Login(name string, secret []byte) (*Account, error) {
	account, err := a.lookUp(name, func(account *Account) bool { return account.accepts(secret) })
	if err == nil {
		a.used.Store(account.Name, time.Now())
	}
	return account, err
}

// Current returns the robot with that name and id as it is now. Errors: ErrUnknown, also
// if the name is another robot's by now, and ErrStale.
func (a *Accounts) Current(name, id string) (*Account, error) {
	return a.lookUp(name, func(account *Account) bool { return account.ID == id })
}

// lookUp finds a robot that fits. A robot that isn't known may have been created a moment
// ago, so it is read from the storage, within bounds.
func (a *Accounts) lookUp(name string, fits func(*Account) bool) (*Account, error) {
	account, err := a.Find(name)
	if err == nil && fits(account) {
		return account, nil
	}
	if !nameForm.MatchString(name) || !a.lookAgain(name) {
		return nil, cmp.Or(err, ErrUnknown)
	}
	if account, err = a.Find(name); err == nil && !fits(account) {
		err = ErrUnknown
	}
	return account, err
}

// lookAgain reads one robot, unless another read has just been made or is under way. It
// reports whether it did.
func (a *Accounts) lookAgain(name string) bool {
	if !a.changing.TryLock() {
		return false
	}
	defer a.changing.Unlock()
	if time.Since(a.looked) < lookPause {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	account, err := a.read(ctx, name)
	a.looked = time.Now()
	if err != nil && !errors.Is(err, ErrUnknown) {
		return false
	}
	a.learn(name, account)
	return true
}

// Names are the names of the robots that may log in, without I/O.
func (a *Accounts) Names() (names []string) {
	for name := range a.all() {
		if _, err := a.Find(name); err == nil {
			names = append(names, name)
		}
	}
	return names
}

// Find returns the robot of that name without I/O. Errors: ErrUnknown, ErrStale.
func (a *Accounts) Find(name string) (*Account, error) {
	k, now := a.known.Load(), time.Now()
	if k == nil || now.Sub(k.at) > maxStale {
		return nil, ErrStale
	}
	account := k.byName[name]
	switch {
	case account == nil || account.broken:
		return nil, ErrUnknown
	case account.Expired(now):
		return nil, errExpired
	}
	return account, nil
}
