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
	var missing map[string]bool
	document.Poll(ctx, orphanInterval, log, "robots of users who have vanished", func(ctx context.Context) (err error) {
		missing, err = l.endOrphans(ctx, missing, log)
		return err
	})
}

// endOrphans ends the robots whose makers are missing and were before, and returns those that are missing.
func (l *Logins) endOrphans(ctx context.Context, before map[string]bool, log *zap.Logger) (missing map[string]bool, failed error) {
	users := l.Htpasswd.file.Get()
	if users == nil || len(users.byName) == 0 {
		return nil, nil
	}
	info, err := os.Stat(l.Htpasswd.path)
	if err != nil {
		return nil, nil //nolint:nilerr // reading the file says so
	}
	missing = map[string]bool{}
	for _, r := range l.Robots.Known() {
		maker := access.ParseCaller(r.CreatedBy)
		if maker.Kind != access.User || r.CreatedBy == "" || r.Orphaned || users.names(maker.Name) {
			continue
		}
		if r.Created.After(info.ModTime()) {
			continue // this copy of the file may be older than the maker
		}
		if missing[maker.Name] = true; !before[maker.Name] {
			continue
		}
		if err := l.Robots.Orphan(ctx, r.Name); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		log.Warn("a robot has stopped, because its maker was removed from the password file; another secret starts it again",
			zap.String("robot", r.Name), zap.String("maker", r.CreatedBy))
	}
	return missing, failed
}

// names reports whether the file has a line of that user, also one that gives no access.
func (u *users) names(name string) bool {
	_, ok := u.byName[name]
	return ok || slices.ContainsFunc(u.broken, func(b brokenLine) bool { return b.user == name })
}
