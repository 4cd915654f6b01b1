package servertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Standby makes a server that follows s and runs it. From then on s commits nothing that the standby has not flushed.
func (s *Postgres) Standby(ctx context.Context) (*Postgres, error) {
	b := &Postgres{o: s.o, bin: s.bin, as: s.as}
	var err error
	if b.dir, err = os.MkdirTemp("", "pg"); err != nil {
		return nil, err
	}
	if b.as != nil {
		err = os.Chown(b.dir, int(b.as.Uid), int(b.as.Gid))
	}
	if err == nil {
		cmd := b.command(ctx, "pg_basebackup", "-d", s.DSN("replication"), "-D", b.data(), "--write-recovery-conf", "--checkpoint=fast", "--no-sync")
		if out, failed := cmd.CombinedOutput(); failed != nil {
			err = fmt.Errorf("pg_basebackup: %w: %s", failed, out)
		}
	}
	if err == nil {
		err = b.Launch(ctx)
	}
	if err == nil { // set after the copy: the standby would otherwise wait for one of its own once promoted
		err = errors.Join(s.Exec(ctx, "postgres", `ALTER SYSTEM SET synchronous_standby_names = '*'`), s.Exec(ctx, "postgres", `SELECT pg_reload_conf()`))
	}
	if err == nil {
		err = s.awaitStandby(ctx)
	}
	if err != nil {
		b.Remove()
		return nil, err
	}
	return b, nil
}

// awaitStandby waits until commits wait for a standby.
func (s *Postgres) awaitStandby(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	for end := time.Now().Add(startWithin); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var follows bool
		err = conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming')`).Scan(&follows)
		if err != nil || follows {
			return err
		}
	}
	return errors.New("the standby does not follow")
}

// Promote makes a standby the primary, and returns once it accepts writes.
func (s *Postgres) Promote(ctx context.Context) error {
	return s.Exec(ctx, "postgres", `SELECT pg_promote(true, 60)`)
}

// AnyDSN returns the DSN of a database on the writable one of several servers.
func AnyDSN(database string, servers ...*Postgres) string {
	var hosts, ports []string
	for _, s := range servers {
		hosts, ports = append(hosts, s.dir), append(ports, fmt.Sprint(s.Port))
	}
	return fmt.Sprintf("host=%s port=%s user=postgres dbname=%s sslmode=disable target_session_attrs=read-write", strings.Join(hosts, ","), strings.Join(ports, ","), database)
}
