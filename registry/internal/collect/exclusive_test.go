package collect

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// oneList fails the test if a list replaces another.
type oneList struct {
	storage.Coordinator
	t      *testing.T
	mu     sync.Mutex
	listed bool
	lists  int
}

func (c *oneList) Publish(ctx context.Context, p storage.Pending) error {
	c.mu.Lock()
	if len(p.Keys) > 0 && c.listed {
		c.t.Error("a list replaces another one that was not withdrawn")
	}
	if c.listed = len(p.Keys) > 0; c.listed {
		c.lists++
	}
	c.mu.Unlock()
	return c.Coordinator.Publish(ctx, p)
}

func (c *oneList) published() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lists
}

// A run that was exclusive goes on with one list at a time once a server has come,
// whether it has one worker then or several.
func TestOneListAtATime(t *testing.T) {
	for name, remote := range map[string]bool{"one worker": false, "several": true} {
		t.Run(name, func(t *testing.T) {
			x := onFiles(t)
			for i := range 60 {
				x.image(oci.Name(fmt.Sprint("a", i)), "v1", fmt.Sprint("kept ", i))
				x.image(oci.Name(fmt.Sprint("a", i)), "", fmt.Sprint("old ", i))
			}
			c := &oneList{Coordinator: x.c, t: t}
			joined := make(chan error, 1)
			x.c = c
			var once sync.Once
			report := x.run(Options{DeleteUntagged: true, Remote: remote, Tell: func(Event) {
				once.Do(func() {
					go func() {
						lease, err := c.Join(t.Context())
						if err == nil {
							t.Cleanup(lease.Release)
						}
						joined <- err
					}()
					time.Sleep(50 * time.Millisecond)
				})
			}})
			if err := <-joined; err != nil || c.published() < 2 || report.Blobs.Freed != 180 || report.Blobs.Kept != 180 || report.Repositories != 60 {
				t.Errorf("%v, %d lists, %+v", err, c.published(), report)
			}
		})
	}
}

// Nobody relies on what was confirmed before an exclusive run began, but whoever has
// come since does, also where the storage's clock is a minute behind this machine's.
func TestYoungOnceAServerHasCome(t *testing.T) {
	for _, c := range []struct {
		keepAge          bool
		before, after    bool // young: two minutes before the run began, and just after it
		exclusive, again bool
	}{
		{false, false, false, true, false},
		{false, false, true, false, true},
		{true, true, true, true, false},
		{true, true, true, false, true},
	} {
		r := newRun(Options{Age: time.Hour, KeepAge: c.keepAge})
		if r.again = c.again; c.exclusive {
			r.exclusive = idle{}
		}
		r.setLimit()
		for _, clock := range []time.Duration{-time.Minute, 0, time.Minute / 2} { // the storage's, from here
			after := r.young(r.begun.Add(time.Second + clock))
			if before := r.young(r.begun.Add(-2*time.Minute + clock)); before != c.before || after != c.after {
				t.Errorf("%+v, %s ahead: young are %v, %v", c, clock, before, after)
			}
		}
	}
}

// idle is a lease that nobody wants.
type idle struct{ storage.Lease }

// full is a coordinator whose storage has no room for the list.
type full struct{ storage.Coordinator }

func (full) Publish(_ context.Context, p storage.Pending) error {
	if p.Run == "" {
		return nil
	}
	return storage.ErrNoSpace
}

func TestFullStorageIsFreedWhileNobodyServes(t *testing.T) {
	onStores(t, func(t *testing.T, x volume) {
		kept, keptBlobs := x.image("a", "v1", "kept")
		old, oldBlobs := x.image("a", "", "old")
		x.c = full{x.c}
		_, err := x.tryRun(Options{DeleteUntagged: true})
		x.whole("kept", "a", kept, keptBlobs)
		if x.serving {
			if !errors.Is(err, ErrNoRoom) {
				t.Errorf("got %v", err)
			}
			x.whole("garbage beside a server", "a", old, oldBlobs)
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		x.gone("garbage", "a", old, oldBlobs)
	})
}
