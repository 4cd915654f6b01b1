package auth

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/access"
	"slipway/registry/internal/document"
)

// orphanInterval is how often the makers of robots are looked for. Those that are missing twice have
// vanished: a program may have been writing the password file.
const orphanInterval = time.Second

// WatchMakers ends the robots of users who vanish from the password file, until ctx ends: the next
// owner of the name must not get them.
func (l *Logins) WatchMakers(ctx context.Context, log *zap.Logger) {
	m := &makers{logins: l, log: log}
	document.Poll(ctx, orphanInterval, log, "robots of users who have vanished", m.endOrphans)
}

// makers remembers which password file the makers of robots were looked for in: nothing is read while
// it stays the same. A maker who can create a robot is in the file of that replica, which looks for them
// itself when that file changes.
type makers struct {
	logins *Logins
	log    *zap.Logger

	users    *users
	modified time.Time
	missing  map[string]bool
}

// endOrphans ends the robots whose makers are missing and were before.
func (m *makers) endOrphans(ctx context.Context) (failed error) {
	l := m.logins
	users := l.Htpasswd.file.Get()
	if users == nil || len(users.byName) == 0 {
		return nil
	}
	info, err := os.Stat(l.Htpasswd.path)
	if err != nil {
		return nil //nolint:nilerr // reading the file says so
	}
	if users == m.users && info.ModTime().Equal(m.modified) {
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
		if r.Created.After(info.ModTime()) {
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
	if m.missing = missing; !again {
		m.users, m.modified = users, info.ModTime()
	}
	return failed
}

// names reports whether the file has a line of that user, also one that gives no access.
func (u *users) names(name string) bool {
	_, ok := u.byName[name]
	return ok || slices.ContainsFunc(u.broken, func(b brokenLine) bool { return b.user == name })
}
