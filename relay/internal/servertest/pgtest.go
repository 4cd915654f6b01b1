package servertest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"slipway/shared/programtest"
	"slipway/shared/testserver"
)

// ErrMissing reports that PostgreSQL is not installed.
var ErrMissing = errors.New("PostgreSQL is missing: install it with tools/install postgresql")

// PostgresOptions configure a server.
type PostgresOptions struct {
	Durable  bool     // fsync on; for tests that kill the server
	Settings []string // further settings, as name=value
}

// Postgres is PostgreSQL in a directory of its own. Its superuser postgres needs no password; other users do.
type Postgres struct {
	Port int // on 127.0.0.1; it listens on a Unix socket too

	o         PostgresOptions
	bin, dir  string
	as        *syscall.Credential // nil runs it as the test's own user
	cmd       *exec.Cmd
	done      chan struct{}
	databases atomic.Int64
}

const startWithin = 3 * time.Minute

// StartPostgres makes a cluster and runs it.
func StartPostgres(ctx context.Context, o PostgresOptions) (*Postgres, error) {
	dir, err := os.MkdirTemp("", "pg") // short: the path of a Unix socket has 107 bytes at most
	if err != nil {
		return nil, err
	}
	s, err := startIn(ctx, dir, o)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// SharedPostgres returns the server that the tests of all packages share, each in databases of its own. It must not be stopped.
func SharedPostgres(ctx context.Context) (*Postgres, error) {
	info, err := testserver.Use("postgres", func(dir string) (testserver.Running, error) {
		s, err := startIn(ctx, dir, PostgresOptions{Settings: []string{"max_connections=1000"}})
		if err != nil {
			return testserver.Running{}, err
		}
		return testserver.Running{Process: s.cmd.Process, Signal: syscall.SIGQUIT, Info: fmt.Appendf(nil, "%d %s", s.Port, dir)}, nil
	})
	if err != nil {
		return nil, err
	}
	s := new(Postgres)
	_, err = fmt.Sscan(string(info), &s.Port, &s.dir)
	return s, err
}

func startIn(ctx context.Context, dir string, o PostgresOptions) (*Postgres, error) {
	s := &Postgres{o: o, dir: dir}
	var err error
	if s.bin, err = find(); err == nil {
		err = s.init(ctx)
	}
	if err == nil {
		err = s.Launch(ctx)
	}
	return s, err
}

// find returns the folder of the newest version's programs.
func find() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the pattern is good
	if len(found) > 0 {
		slices.Sort(found)
		return filepath.Dir(found[len(found)-1]), nil
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	return "", ErrMissing
}

// init makes the cluster. PostgreSQL refuses to run as root.
func (s *Postgres) init(ctx context.Context) error {
	if os.Geteuid() == 0 {
		owner, err := user.Lookup("postgres")
		if err != nil {
			return err
		}
		uid, err1 := strconv.ParseUint(owner.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(owner.Gid, 10, 32)
		if err := errors.Join(err1, err2, os.Chown(s.dir, int(uid), int(gid))); err != nil {
			return err
		}
		s.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	cmd := s.command(ctx, "initdb", "--no-sync", "--no-instructions", "--username=postgres", "--auth-local=trust", "--auth-host=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8", "-D", s.data())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return nil
}

func (s *Postgres) data() string { return filepath.Join(s.dir, "data") }

func (s *Postgres) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as, Setpgid: true}
	return cmd
}

// Launch starts the server, also after [Server.Stop] or [Server.Kill], and waits until it accepts connections.
func (s *Postgres) Launch(ctx context.Context) error {
	var err error
	for range 5 { // another process may have taken the port meanwhile
		if s.Port == 0 {
			if s.Port, err = programtest.FreePort(ctx); err != nil {
				return err
			}
		}
		if err = s.launch(ctx); err == nil || ctx.Err() != nil || s.databases.Load() > 0 {
			return err
		}
		s.Port = 0
	}
	return err
}

func (s *Postgres) launch(ctx context.Context) error {
	args := []string{
		"-D", s.data(), "-k", s.dir, "-p", strconv.Itoa(s.Port), "-c", "listen_addresses=127.0.0.1",
		"-c", "max_connections=200", "-c", "shared_buffers=32MB", "-c", "logging_collector=off",
	}
	if !s.o.Durable {
		args = append(args, "-c", "fsync=off", "-c", "full_page_writes=off")
	}
	for _, setting := range s.o.Settings {
		args = append(args, "-c", setting)
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := s.command(context.WithoutCancel(ctx), "postgres", args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd, s.done = cmd, make(chan struct{})
	go func(done chan struct{}) {
		_ = cmd.Wait() // its log has the exit status
		close(done)
	}(s.done)
	return s.await(ctx)
}

func (s *Postgres) await(ctx context.Context) error {
	for end := time.Now().Add(startWithin); ; time.Sleep(20 * time.Millisecond) {
		conn, err := pgx.Connect(ctx, s.DSN("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.done:
			err = errors.New("it has ended")
		default:
			if time.Now().Before(end) && ctx.Err() == nil {
				continue
			}
		}
		log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
		s.end(syscall.SIGQUIT)
		return fmt.Errorf("PostgreSQL does not start: %w\n%s", err, log[max(0, len(log)-4000):])
	}
}

// DSN names a database, over the Unix socket and as the superuser.
func (s *Postgres) DSN(database string) string {
	return fmt.Sprintf("host=%s port=%d user=postgres dbname=%s sslmode=disable", s.dir, s.Port, database)
}

// Address returns the host and port of the server.
func (s *Postgres) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)) }

// Exec runs a statement as the superuser.
func (s *Postgres) Exec(ctx context.Context, database, statement string) error {
	conn, err := pgx.Connect(ctx, s.DSN(database))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}

// NewDatabase makes an empty database and returns its name.
func (s *Postgres) NewDatabase(ctx context.Context) (string, error) {
	s.databases.Add(1)
	name := "t" + strings.ToLower(rand.Text()) // others may use the server
	return name, s.Exec(ctx, "postgres", "CREATE DATABASE "+name)
}

// Database makes an empty database for a test and returns its DSN.
func (s *Postgres) Database(t testing.TB) string {
	t.Helper()
	name, err := s.NewDatabase(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Exec(context.Background(), "postgres", "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("drop the test's database: %v", err)
		}
	})
	return s.DSN(name)
}

// Stop shuts the server down in its fast mode: it disconnects clients and flushes all data.
func (s *Postgres) Stop() { s.end(syscall.SIGINT) }

// Kill ends the server at once; the next start recovers from the write-ahead log.
func (s *Postgres) Kill() { s.end(syscall.SIGQUIT) }

// Freeze suspends the server and its sessions: connections stay open but get no answers until [Server.Thaw].
func (s *Postgres) Freeze() error { return s.signalAll(syscall.SIGSTOP) }

// Thaw resumes a frozen server.
func (s *Postgres) Thaw() error { return s.signalAll(syscall.SIGCONT) }

// signalAll sends a signal to the server first, which then starts no more sessions, and to all its processes.
func (s *Postgres) signalAll(signal syscall.Signal) error {
	pid := s.cmd.Process.Pid
	if err := syscall.Kill(pid, signal); err != nil {
		return err
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return err
	}
	for _, child := range strings.Fields(string(children)) {
		id, err := strconv.Atoi(child)
		if err != nil {
			return err
		}
		_ = syscall.Kill(id, signal) // it may have ended
	}
	return nil
}

func (s *Postgres) end(signal syscall.Signal) {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(signal) // it may have ended
	<-s.done
	s.cmd = nil
}

// Remove ends the server and removes its directory.
func (s *Postgres) Remove() {
	s.end(syscall.SIGQUIT)
	_ = os.RemoveAll(s.dir) // it is in the folder of temporary files
}
