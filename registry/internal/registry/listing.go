package registry

import (
	"context"
)

// listing is the names of the directories in a directory, sorted bytewise.
// It is shared: nobody changes it.
type listing struct {
	version string
	names   []string
}

// listDirs lists the directories in dir. A listing is kept for as long as the
// storage says that nothing appeared or vanished in dir; as long as that holds,
// the same pointer comes back. The version is asked first: what changes while
// the listing is read makes the next call read again.
func (r *Registry) listDirs(ctx context.Context, dir string) (*listing, error) {
	version, ok := r.driver.Version(ctx, dir)
	if ok {
		if kept, found := r.listings.get(dir); found && kept.version == version {
			return kept, nil
		}
	}
	l := &listing{version: version}
	weight := int64(len(dir)) + 200
	for e, err := range r.driver.List(ctx, dir, "") {
		if err != nil {
			return nil, err
		}
		if e.Dir {
			l.names = append(l.names, e.Name)
			weight += int64(len(e.Name)) + 24
		}
	}
	if ok {
		r.listings.put(dir, l, weight)
	}
	return l, nil
}
