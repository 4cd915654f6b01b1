package auth

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"slipway/registry/internal/access"
	"slipway/registry/internal/sharedstate"
)

const (
	// orphanInterval is the time between two checks for robots whose maker is gone. A maker counts as gone if two
	// checks in a row miss it: the password file may be incomplete while a program writes it.
	orphanInterval = time.Second

	// settle is the time after a change of the password file in which a removed user may still create robots, in a
	// request that began before.
	settle = 5 * time.Second
)

// WatchMakers ends the robots of users who vanish from the password file, until ctx ends: the next
// owner of the name must not get them.
func (l *Logins) WatchMakers(ctx context.Context, log *zap.Logger) {
	m := &makers{logins: l, log: log}
	sharedstate.Poll(ctx, orphanInterval, log, "robots of users who have vanished", m.endOrphans)
}

// makers remembers which password file the makers of robots were looked for in: nothing is read while
// it stays the same, except once more after settle. A maker who can create a robot is in the file of that replica, which looks for them
// itself when that file changes.
type makers struct {
	logins *Logins
	log    *zap.Logger

	users   *users
	before  *users    // the reading before; nil at the start
	changed time.Time // by the file's own times
	seen    time.Time // when the change was noticed
	due     time.Time // when to look next; zero means after the next change
	missing map[string]bool
}

// endOrphans ends the robots whose makers are missing and were before.
func (m *makers) endOrphans(ctx context.Context) (failed error) {
	l := m.logins
	users := l.Htpasswd.file.Get()
	if users == nil {
		return nil
	}
	changed, err := changeTime(l.Htpasswd.path)
	if err != nil {
		return nil //nolint:nilerr // reading the file says so
	}
	if users != m.users || !changed.Equal(m.changed) {
		if users != m.users {
			m.users, m.before = users, m.users
		}
		m.changed, m.seen, m.due = changed, time.Now(), time.Now()
	}
	if m.due.IsZero() || time.Now().Before(m.due) {
		return nil
	}
	robots, err := l.Robots.List(ctx)
	if err != nil {
		return err
	}
	missing, again := map[string]bool{}, false
	for _, r := range robots {
		maker := access.ParseCaller(r.CreatedBy)
		if maker.Kind != access.User || r.CreatedBy == "" || r.Orphaned || users.names(maker.Name) {
			continue
		}
		was := m.missing[maker.Name] || m.before != nil && m.before.names(maker.Name)
		if !was && r.Created.After(changed.Add(settle)) {
			continue // this copy of the file may be older than the maker
		}
		if missing[maker.Name] = true; !m.missing[maker.Name] {
			again = true
			continue
		}
		ended, err := l.Robots.Orphan(ctx, r.Name)
		failed, again = errors.Join(failed, err), again || !ended
		if ended {
			m.log.Warn("a robot has stopped, because its maker was removed from the password file; another secret starts it again",
				zap.String("robot", r.Name), zap.String("maker", r.CreatedBy))
		}
	}
	m.missing = missing
	switch {
	case again:
	case time.Since(m.seen) < settle:
		m.due = m.seen.Add(settle)
	default:
		m.due = time.Time{}
	}
	return failed
}

// changeTime returns when a file was changed or put in its place: a copy may keep an old modification time.
func changeTime(path string) (time.Time, error) {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return time.Time{}, err
	}
	modified, put := time.Unix(s.Mtim.Unix()), time.Unix(s.Ctim.Unix())
	if put.After(modified) {
		return put, nil
	}
	return modified, nil
}

// names reports whether the file has a line of that user, also one that gives no access.
func (u *users) names(name string) bool {
	_, ok := u.byName[name]
	return ok || u.isDisabled(name) || slices.ContainsFunc(u.broken, func(b brokenLine) bool { return b.user == name })
}
