package filesystem

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

// roles are what another process does with the storage until it is killed.
var roles = map[string]func(ctx context.Context, c *Coordinator) error{
	"collector": func(ctx context.Context, c *Coordinator) error {
		if _, err := c.Lock(ctx, storage.CollectorLock); err != nil {
			return err
		}
		return c.Publish(ctx, storage.Pending{Run: "dead", Keys: []string{"/a"}})
	},
	"writer":    func(ctx context.Context, c *Coordinator) error { _, err := c.Begin(ctx); return err },
	"server":    func(ctx context.Context, c *Coordinator) error { _, err := c.Join(ctx); return err },
	"exclusive": func(ctx context.Context, c *Coordinator) error { _, err := c.Exclusive(ctx); return err },
	"changer": func(_ context.Context, c *Coordinator) error {
		_, err := c.s.lock(keyLockName(lockOf("/a")), unix.LOCK_EX)
		return err
	},
}

// TestRole is the other process.
func TestRole(t *testing.T) {
	role := roles[os.Getenv("ROLE")]
	if role == nil {
		return // the usual run of the tests
	}
	err := role(context.Background(), openRoot(t, os.Getenv("ROLE_ROOT")).Coordinator())
	fmt.Println("ready", err)
	time.Sleep(time.Hour)
}

// start runs a role in a process of its own, and returns when it is played.
func start(t *testing.T, role, root string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRole$")
	cmd.Env = append(os.Environ(), "ROLE="+role, "ROLE_ROOT="+root)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() { kill(cmd) })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if line, ok := strings.CutPrefix(lines.Text(), "ready "); ok {
			if line != "<nil>" {
				t.Fatalf("%s: %s", role, line)
			}
			return cmd
		}
	}
	t.Fatalf("%s: it has ended", role)
	return nil
}

func kill(cmd *exec.Cmd) {
	cmd.Process.Kill()
	cmd.Wait()
}

// soon is for what must not succeed.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// Nothing is held by a process that was killed.
func TestKilledProcessesHoldNothing(t *testing.T) {
	root := t.TempDir()
	s := openRoot(t, root)
	defer s.Close()
	c := s.Coordinator()
	for role, held := range map[string]func(ctx context.Context) error{ // which ends while the process lives
		"collector": func(ctx context.Context) error {
			time.Sleep(2 * holdGate) // for so long a section may know what was read before
			section, err := c.Begin(ctx)
			if err != nil {
				return err
			}
			defer section.End()
			if section.Run() == "dead" && section.Listed("/a") {
				return errors.New("the list counts")
			}
			lease, err := c.Lock(ctx, storage.CollectorLock)
			if err == nil {
				lease.Release()
			}
			return err
		},
		"writer": c.Barrier,
		"server": func(ctx context.Context) error {
			lease, err := c.Exclusive(ctx)
			if err == nil {
				lease.Release()
			}
			return err
		},
		"exclusive": func(ctx context.Context) error {
			lease, err := c.Join(ctx)
			if err == nil {
				lease.Release()
			}
			return err
		},
	} {
		cmd := start(t, role, root)
		if held(soon(t)) == nil {
			t.Errorf("%s: nothing shows that it lives", role)
		}
		kill(cmd)
		patient, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := held(patient)
		if cancel(); err != nil {
			t.Errorf("%s: after its death: %v", role, err)
		}
	}
}

// The list of a dead collector does not come back to life with the next one.
func TestDeadListIsWithdrawn(t *testing.T) {
	root := t.TempDir()
	kill(start(t, "collector", root))
	s := openRoot(t, root)
	defer s.Close()
	lease, err := s.Coordinator().Lock(t.Context(), storage.CollectorLock)
	check(t, err)
	defer lease.Release()
	section, err := s.Coordinator().Begin(t.Context())
	check(t, err)
	defer section.End()
	if section.Run() != "" || section.Listed("/a") {
		t.Errorf("the list of the dead run %q counts", section.Run())
	}
}

// A process that was stopped in the middle of a change holds up only what shares
// its lock, and not the committer.
func TestStoppedInAChange(t *testing.T) {
	root := t.TempDir()
	s := openRoot(t, root)
	defer s.Close()
	apply(t, s, storage.Change{Key: "/a", Content: []byte("old")})
	cmd := start(t, "changer", root)
	other := "/b"
	for i := 0; lockOf(other) == lockOf("/a"); i++ {
		other = fmt.Sprintf("/b%d", i)
	}
	blocked := make(chan error, 2)
	go func() {
		blocked <- s.Apply(t.Context(), nil, storage.Stage{{Key: "/a", Content: []byte("x")}}, storage.Stage{{Key: other + "2", Content: []byte("x")}})
	}()
	go func() { blocked <- s.Apply(t.Context(), nil, storage.Stage{{Key: "/a", Delete: true}}) }()
	for range 50 {
		apply(t, s, storage.Change{Key: other, Content: []byte("x")})
	}
	select {
	case err := <-blocked:
		t.Fatalf("the change is made (%v) while another process is at it", err)
	default:
	}
	kill(cmd)
	for range 2 {
		check(t, <-blocked)
	}
	if _, err := s.Stat(t.Context(), other+"2"); err != nil {
		t.Errorf("the second stage: %v", err)
	}
}

// A list that was damaged on its way does not count, the one before does.
func TestHalfWrittenList(t *testing.T) {
	s := openRoot(t, t.TempDir())
	defer s.Close()
	c := s.Coordinator()
	lease, err := c.Lock(t.Context(), storage.CollectorLock)
	check(t, err)
	defer lease.Release()
	check(t, c.Publish(t.Context(), storage.Pending{Run: "one", Keys: []string{"/a"}}))
	check(t, c.Publish(t.Context(), storage.Pending{Run: "two", Keys: []string{"/b"}}))
	fd, err := s.openLock(pendingName, unix.O_RDWR)
	check(t, err)
	defer closeFD(fd)
	for i := range int64(2) { // the second list is in the first slot
		check(t, pwrite(fd, []byte{0xff}, i*headSize+30))
		time.Sleep(2 * holdGate) // for so long a section may know what was read before
		section, err := c.Begin(t.Context())
		check(t, err)
		if want := []string{"one", ""}[i]; section.Run() != want || section.Listed("/b") {
			t.Errorf("with %d damaged heads the run is %q, want %q", i+1, section.Run(), want)
		}
		section.End()
	}
}

// Somebody who deletes the directory of locks does not separate those who know the
// old files from those who make new ones, for long.
func TestLocksDeletedByHand(t *testing.T) {
	root := t.TempDir()
	all := openAll(t, root, 2)
	for range 2 {
		for _, c := range all {
			old, err := c.Begin(t.Context())
			check(t, err)
			check(t, os.RemoveAll(root+"/.locks"))
			old.End()
			time.Sleep(2 * holdGate)
			section, err := c.Begin(t.Context())
			check(t, err)
			if err := all[0].Barrier(soon(t)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Barrier beside a section: %v", err)
			}
			section.End()
			check(t, all[1].Barrier(t.Context()))
			lease, err := all[0].Lock(t.Context(), storage.CollectorLock)
			check(t, err)
			check(t, all[0].Publish(t.Context(), storage.Pending{Run: "r"}))
			for _, c := range all {
				time.Sleep(2 * holdGate)
				section, err := c.Begin(t.Context())
				check(t, err)
				if section.Run() != "r" {
					t.Error("a section does not see the run")
				}
				section.End()
			}
			lease.Release()
		}
	}
}

// old plays a process of the version before: it locks as its Serve, Lock and Alone
// do.
func old(t *testing.T, root string, shared, alone []string) (leave func(), err error) {
	t.Helper()
	check(t, os.MkdirAll(root+"/.locks/servers", 0o777))
	var held locks
	for how, names := range map[int][]string{unix.LOCK_SH: shared, unix.LOCK_EX: alone} {
		for _, name := range names {
			fd, err := open(root+name, unix.O_RDONLY)
			if err != nil {
				fd, err = open(root+name, unix.O_RDWR|unix.O_CREAT)
			}
			check(t, err)
			held = append(held, fd)
			if err := flock(fd, how); err != nil {
				held.drop()
				return nil, err
			}
		}
	}
	return held.drop, nil
}

func TestVersionBefore(t *testing.T) {
	server := func(root string) (func(), error) {
		return old(t, root, []string{"/.locks/alone", "", "/.locks/servers/1"}, nil)
	}
	collector := func(root string) (func(), error) { return old(t, root, []string{""}, []string{"/.locks/collector"}) }
	offline := func(root string) (func(), error) {
		return old(t, root, []string{""}, []string{"/.locks/collector", "/.locks/alone"})
	}
	join := func(c *Coordinator) (storage.Lease, error) { return c.Join(soon(t)) }
	collect := func(c *Coordinator) (storage.Lease, error) { return c.Lock(t.Context(), storage.CollectorLock) }
	exclusive := func(c *Coordinator) (storage.Lease, error) { return c.Exclusive(t.Context()) }
	for _, tt := range []struct {
		name   string
		old    func(root string) (func(), error)
		now    func(c *Coordinator) (storage.Lease, error)
		before bool // the new one comes first: the old one is refused
		want   error
	}{
		{"a server beside a server", server, join, false, errOldServer},
		{"a collector beside a server", server, collect, false, errOldServer},
		{"exclusive beside a server", server, exclusive, false, errOldServer},
		{"a server beside a collector", collector, join, false, errOldCollector},
		{"a collector beside a collector", collector, collect, false, errOldCollector},
		{"exclusive beside a collector", collector, exclusive, false, errOldCollector},
		{"a server beside one who is alone", offline, join, false, errOldCollector},
		{"an old collector beside a server", collector, join, true, nil},
		{"an old collector beside a collector", collector, collect, true, nil},
		{"one who is alone beside a server", offline, join, true, nil},
		{"an old server beside one who is exclusive", server, exclusive, true, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			c := openAll(t, root, 1)[0]
			if tt.before {
				lease, err := tt.now(c)
				check(t, err)
				if _, err := tt.old(root); !errors.Is(err, unix.EWOULDBLOCK) {
					t.Errorf("the old one: %v, want that it cannot lock", err)
				}
				lease.Release()
			}
			leave, err := tt.old(root)
			check(t, err)
			if !tt.before {
				_, err := tt.now(c)
				wantErr(t, "the new one", err, tt.want)
				wantErr(t, "the new one", err, storage.ErrBusy)
			}
			leave()
			lease, err := tt.now(c)
			check(t, err)
			lease.Release()
		})
	}
}
