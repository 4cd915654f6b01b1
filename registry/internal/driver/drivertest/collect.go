package drivertest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway/registry/internal/driver"
)

const (
	place = "/docker/registry/v2/blobs/sha256/ab/abcd/data"
	aside = "/_aside/docker/registry/v2/blobs/sha256/ab/abcd.data"
)

func testTouch(t *testing.T, d driver.Driver) {
	put(t, d, place, "bytes")
	old := d.Now().Add(-time.Hour).Truncate(time.Second)
	if err := d.Touch(t.Context(), place, old); err != nil {
		t.Fatal(err)
	}
	if got := changed(t, d, place); !got.Equal(old) {
		t.Errorf("changed at %v, want %v", got, old)
	}
	if err := d.Touch(t.Context(), place, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if got := changed(t, d, place); d.Now().Sub(got).Abs() > time.Minute {
		t.Errorf("changed at %v, want now", got)
	}
	wantError(t, "Touch", d.Touch(t.Context(), "/not/there", time.Time{}), driver.ErrNotExist)
	wantError(t, "Touch", d.Touch(t.Context(), "/../x", time.Time{}), driver.ErrInvalidPath)
}

func changed(t *testing.T, d driver.Driver, path string) time.Time {
	t.Helper()
	info, err := d.Stat(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Changed
}

func testSetAside(t *testing.T, d driver.Driver) {
	put(t, d, place, "bytes")
	was := d.Now().Add(-time.Hour).Truncate(time.Second)
	if err := d.Touch(t.Context(), place, was); err != nil {
		t.Fatal(err)
	}
	if err := d.SetAside(t.Context(), place, aside); err != nil {
		t.Fatal(err)
	}
	wantAbsent(t, d, place)
	wantContent(t, d, aside, "bytes")
	if got := changed(t, d, aside); !got.Equal(was) {
		t.Errorf("set aside, it was changed at %v instead of %v", got, was)
	}
	if info, err := d.Stat(t.Context(), aside); err != nil || !info.Moved.IsZero() && d.Now().Sub(info.Moved).Abs() > time.Minute {
		t.Errorf("set aside, it was moved at %v, want now or nothing, %v", info.Moved, err)
	}
	wantError(t, "SetAside", d.SetAside(t.Context(), place, aside), driver.ErrNotExist)
	if err := d.Restore(t.Context(), aside, place); err != nil {
		t.Fatal(err)
	}
	wantContent(t, d, place, "bytes")
	wantError(t, "Restore", d.Restore(t.Context(), aside, place), driver.ErrNotExist)
	wantError(t, "SetAside", d.SetAside(t.Context(), "/docker/registry/v2/blobs", aside), driver.ErrNotExist)
}

func testSetAsideOverwritesNothing(t *testing.T, d driver.Driver) {
	put(t, d, place, "one")
	if err := d.SetAside(t.Context(), place, aside); err != nil {
		t.Fatal(err)
	}
	put(t, d, place, "two")
	wantError(t, "SetAside", d.SetAside(t.Context(), place, aside), driver.ErrExist)
	wantError(t, "Restore", d.Restore(t.Context(), aside, place), driver.ErrExist)
	wantContent(t, d, place, "two")
	wantContent(t, d, aside, "one")
}

// Who restores and who removes exclude each other.
func testRestoreOrRemove(t *testing.T, d driver.Driver) {
	for range 50 {
		put(t, d, aside, "bytes")
		var restored atomic.Int32
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				switch err := d.Restore(context.Background(), aside, place); {
				case err == nil:
					restored.Add(1)
				case !errors.Is(err, driver.ErrNotExist) && !errors.Is(err, driver.ErrExist):
					t.Errorf("Restore: %v", err)
				}
			})
		}
		all.Go(func() {
			if err := d.Discard(context.Background(), aside); err != nil {
				t.Errorf("Discard: %v", err)
			}
		})
		all.Wait()
		_, err := d.Stat(t.Context(), place)
		if n := restored.Load(); n > 1 || (n == 1) != (err == nil) {
			t.Fatalf("%d restored it, and then a look at it says %v", n, err)
		}
		wantAbsent(t, d, aside)
		if err := d.Discard(t.Context(), place); err != nil {
			t.Fatal(err)
		}
	}
}

func testPrune(t *testing.T, d driver.Driver) {
	put(t, d, "/a/b/c", "bytes")
	for _, dir := range []string{"/a/b", "/a", "/not/there"} {
		if err := d.Prune(t.Context(), dir); err != nil {
			t.Errorf("Prune(%s): %v", dir, err)
		}
	}
	wantContent(t, d, "/a/b/c", "bytes")
	if err := d.Discard(t.Context(), "/a/b/c"); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"/a/b", "/a"} {
		if err := d.Prune(t.Context(), dir); err != nil {
			t.Errorf("Prune(%s): %v", dir, err)
		}
		wantAbsent(t, d, dir)
	}
	put(t, d, "/a/b/c", "again")
	wantContent(t, d, "/a/b/c", "again")
}

// A writer is not disturbed by who prunes what it is about to use.
func testPruneWhileWriting(t *testing.T, d driver.Driver) {
	stop := make(chan struct{})
	var tidy sync.WaitGroup
	tidy.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = d.Prune(context.Background(), "/p/q/r") // whatever it finds
				_ = d.Prune(context.Background(), "/p/q")   // whatever it finds
				_ = d.Prune(context.Background(), "/p")     // whatever it finds
			}
		}
	})
	for range 100 {
		put(t, d, "/p/q/r/x", "bytes")
		wantContent(t, d, "/p/q/r/x", "bytes")
		if err := d.SetAside(t.Context(), "/p/q/r/x", aside); err != nil {
			t.Fatal(err)
		}
		if err := d.Restore(t.Context(), aside, "/p/q/r/x"); err != nil {
			t.Fatal(err)
		}
		if err := d.Discard(t.Context(), "/p/q/r/x"); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	tidy.Wait()
}

func testBarrier(t *testing.T, d driver.Driver) {
	if err := d.Barrier(t.Context()); err != nil {
		t.Fatal(err)
	}
	for round := range 3 { // whichever gate it is
		leave, err := d.Enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		passed := make(chan error, 1)
		go func() { passed <- d.Barrier(context.Background()) }()
		select {
		case err := <-passed:
			t.Fatalf("round %d: the barrier was passed (%v) while a section lasts", round, err)
		case <-time.After(20 * time.Millisecond):
		}
		late, err := d.Enter(t.Context()) // is not held up
		if err != nil {
			t.Fatal(err)
		}
		leave()
		late()
		select {
		case err := <-passed:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("round %d: the barrier waits for nobody", round)
		}
	}
}

func testBarrierGivesUp(t *testing.T, d driver.Driver) {
	leave, err := d.Enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	wantError(t, "Barrier", d.Barrier(ctx), context.DeadlineExceeded)
}

// Sections that follow each other without a gap do not keep a barrier waiting.
func testBarrierIsNotStarved(t *testing.T, d driver.Driver) {
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				leave, err := d.Enter(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Millisecond)
				leave()
			}
		})
	}
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if err := d.Barrier(ctx); err != nil {
			t.Error(err)
		}
		cancel()
	}
	close(stop)
	writers.Wait()
}

func testLock(t *testing.T, d driver.Driver) {
	unlock, err := d.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Lock(t.Context())
	wantError(t, "Lock", err, driver.ErrBusy)
	unlock()
	if unlock, err = d.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	unlock()
}

func testAlone(t *testing.T, d driver.Driver) {
	leave, err := d.Serve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = d.Alone(t.Context())
	wantError(t, "Alone beside a server", err, driver.ErrBusy)
	leave()
	wanted, release, err := d.Alone(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if wanted() {
		t.Error("wanted, and nobody is there")
	}
	served := make(chan error, 1)
	go func() {
		leave, err := d.Serve(context.Background())
		if err == nil {
			leave()
		}
		served <- err
	}()
	for range 1000 {
		if wanted() {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if !wanted() {
		t.Error("a server waits, and nobody is told")
	}
	select {
	case err := <-served:
		t.Errorf("somebody serves (%v) beside one who is alone", err)
	default:
	}
	release()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if _, release, err = d.Alone(t.Context()); err != nil {
		t.Fatal(err)
	}
	release()
}

func testServers(t *testing.T, d driver.Driver) {
	seen := map[string]bool{}
	look := func(want int) {
		t.Helper()
		n, err := d.Servers(t.Context())
		if err != nil || n != want {
			t.Errorf("%d servers (%v), want %d", n, err, want)
		}
		token := d.Crew(t.Context())
		if d.Crew(t.Context()) != token {
			t.Error("the token changes though nobody comes or goes")
		}
		if seen[token] {
			t.Error("the token did not change though somebody came or went")
		}
		seen[token] = true
		time.Sleep(20 * time.Millisecond)
	}
	look(0)
	first, err := d.Serve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	look(1)
	second, err := d.Serve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	look(2)
	first()
	look(1)
	second()
	look(0)
}

func testBusy(t *testing.T, d driver.Driver) {
	if d.Busy(t.Context()) {
		t.Error("busy though nobody has requests")
	}
	for range 2 {
		d.Requested(t.Context())
		if !d.Busy(t.Context()) {
			t.Error("not busy just after a request")
		}
		time.Sleep(1100 * time.Millisecond)
		if d.Busy(t.Context()) {
			t.Error("busy still, a second after the last request")
		}
	}
}
