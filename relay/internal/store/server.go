package store

import "context"

// Server is the settings of PostgreSQL that what was accepted depends on.
type Server struct {
	Synchronous string   // which standbys have to confirm a commit; "" if none
	Unsafe      []string // settings that are off and let a crash lose commits
}

// Server returns how the server is set.
func (s *Store) Server(ctx context.Context) (v Server, err error) {
	var commit, fsync, pages string
	err = s.read.QueryRowContext(ctx, `SELECT current_setting('synchronous_standby_names'), current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes')`).
		Scan(&v.Synchronous, &commit, &fsync, &pages)
	if err != nil {
		return v, explain(err)
	}
	if commit == "local" {
		v.Synchronous = ""
	}
	if fsync == "off" {
		v.Unsafe = append(v.Unsafe, "fsync")
	}
	if pages == "off" {
		v.Unsafe = append(v.Unsafe, "full_page_writes")
	}
	return v, nil
}
