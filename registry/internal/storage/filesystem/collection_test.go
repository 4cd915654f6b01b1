package filesystem

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

// A caller of Apply without an attempt doesn't notice collections, which remove staging
// directories at any moment.
func TestApplyBesideCollections(t *testing.T) {
	root := t.TempDir()
	s, collector := openRoot(t, root), openRoot(t, root)
	defer s.Close()
	defer collector.Close()
	var writers sync.WaitGroup
	applied := make(chan struct{}, 80)
	for i := range 4 {
		writers.Go(func() {
			for j := range 20 {
				first, second := fmt.Sprintf("/r/%d/%d/data", i, j), fmt.Sprintf("/r/%d/%d/link", i, j)
				u, err := s.OpenUpload(t.Context(), fmt.Sprintf("/up/%d-%d/data", i, j), storage.UploadOptions{Create: true})
				if err == nil {
					_, err = u.Write([]byte(first))
				}
				if err == nil {
					err = s.Apply(t.Context(), nil, storage.Stage{{Key: first, Upload: u}}, storage.Stage{{Key: second, Content: []byte(second)}})
				}
				if err != nil {
					t.Errorf("Apply: %v", err)
					return
				}
				applied <- struct{}{}
				for _, key := range []string{first, second} {
					if got, err := readAll(t.Context(), s, key); err != nil || string(got) != key {
						t.Errorf("%s has %q, %v", key, got, err)
					}
				}
			}
		})
	}
	go func() { writers.Wait(); close(applied) }()
	n := 0
	for range applied {
		if n++; n%8 == 0 { // one Apply bears few collections
			check(t, collector.revokeStaging())
		}
	}
	if n < 80 {
		t.Errorf("%d of 80 were applied", n)
	}
}

// A collection removes the files that processes which died have left.
func TestCollectRemovesLeftovers(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"died", gone + "during-a-collection"} {
		write(t, root+"/.staging/"+dir+"/1", "half")
	}
	s := openRoot(t, root)
	defer s.Close()
	c, err := s.Collect(t.Context())
	check(t, err)
	c.Close()
	if left, err := os.ReadDir(s.staging); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A renewal dates the file that has the name, not one that was replaced.
func TestRenewalExcludesDeletion(t *testing.T) {
	root := t.TempDir()
	s, other := openRoot(t, root), openRoot(t, root)
	defer s.Close()
	defer other.Close()
	apply(t, s, storage.Change{Key: "/a/f", Content: []byte("x")})
	unlock, err := other.lockKey("/a/f")
	check(t, err)
	renewed := make(chan error)
	go func() {
		renewed <- s.Apply(t.Context(), nil, storage.Stage{{Key: "/a/f", Renew: true}})
	}()
	select {
	case err := <-renewed:
		t.Errorf("renewed under the lock of another process: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	check(t, os.Remove(root+"/a/f"))
	unlock()
	wantErr(t, "renewal of what was deleted", <-renewed, storage.ErrNotExist)
}

// A lock file that somebody deletes is made again, and still excludes others.
func TestLockFileDeletedByHand(t *testing.T) {
	root := t.TempDir()
	s, other := openRoot(t, root), openRoot(t, root)
	defer s.Close()
	defer other.Close()
	apply(t, s, storage.Change{Key: "/a/f", Content: []byte("x")})
	apply(t, s, storage.Change{Key: "/a/f", Renew: true})
	check(t, os.RemoveAll(root+"/.locks"))
	unlock, err := s.lockKey("/a/f")
	check(t, err)
	defer unlock()
	fd, err := other.keyFile()
	check(t, err)
	busy := 0
	for n := range int64(lockCount) {
		if setLock(fd, n, unix.F_WRLCK) != nil {
			busy++
		}
	}
	if busy != 1 {
		t.Errorf("%d locks are held, want 1", busy)
	}
}

// A server that starts during an offline collection learns which process it waits for.
func TestBusyNamesTheHolder(t *testing.T) {
	root := t.TempDir()
	s, server := openRoot(t, root), openRoot(t, root)
	defer s.Close()
	defer server.Close()
	c, err := s.Collect(t.Context())
	check(t, err)
	defer c.Close()
	_, err = server.Lock(t.Context(), storage.LockServers, true)
	wantErr(t, "a server that starts", err, storage.ErrBusy)
	if want := fmt.Sprintf("process %d", os.Getpid()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the error is %v, want one with %q", err, want)
	}
}

// Nobody can know who serves a network file system, so no collection is offline there.
func TestRemoteIsNeverOffline(t *testing.T) {
	s := openRoot(t, t.TempDir())
	defer s.Close()
	id := *s.identity.Load()
	id.local = false
	s.identity.Store(&id)
	s.wait = time.Millisecond
	c, err := s.Collect(t.Context())
	check(t, err)
	defer c.Close()
	if c.Offline() {
		t.Error("the collection is offline")
	}
}

// A file system whose clock is off is refused: collections would compare it to this
// machine's.
func TestClockOfTheFileSystem(t *testing.T) {
	now := time.Now()
	for skew, ok := range map[time.Duration]bool{0: true, time.Second: true, -time.Minute: false, time.Minute: false} {
		if err := checkClock(now.Add(skew), now, now); (err == nil) != ok {
			t.Errorf("a skew of %v: %v", skew, err)
		}
	}
}

// After the clock was set back, what is new has dates from before the collection, which ends; also if the clock is right again at
// its next deletion.
func TestClockSetBackDuringACollection(t *testing.T) {
	for _, again := range []bool{false, true} {
		s := openRoot(t, t.TempDir())
		defer s.Close()
		unlock, err := s.Lock(t.Context(), storage.LockServers, true)
		check(t, err)
		defer unlock()
		s.wait = time.Millisecond
		check(t, s.Apply(t.Context(), nil, storage.Stage{{Key: "/r/new", Content: []byte("x")}}))
		started, err := s.Collect(t.Context())
		check(t, err)
		defer started.Close()
		info, err := s.Stat(t.Context(), "/r/new")
		check(t, err)
		c := started.(*collection) //nolint:forcetypeassert // of this store
		if err := c.checkClock(); err != nil {
			t.Fatal(err)
		}
		start := c.start
		c.start = start.Add(2 * time.Hour) // the clock was ahead
		if again {
			wantErr(t, "a look at the clock", c.checkClock(), storage.ErrClock)
			c.start = start
		}
		_, err = c.Delete(t.Context(), []storage.Info{info})
		wantErr(t, "Delete", err, storage.ErrClock)
		if _, err := s.Stat(t.Context(), "/r/new"); err != nil {
			t.Error(err)
		}
	}
}
