package collect

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway/registry/internal/layout"
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

// withdrawn says whether a list was published and is being withdrawn, at least.
func (c *oneList) withdrawn() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lists > 0 && !c.listed
}

// holding knows the lease of the run that is exclusive.
type holding struct {
	storage.Coordinator
	lease storage.Lease
}

func (h *holding) Exclusive(ctx context.Context) (lease storage.Lease, err error) {
	h.lease, err = h.Coordinator.Exclusive(ctx)
	return h.lease, err
}

// serverComes lets a server come, and returns once it waits for the run or was let in, by
// another worker. The run itself calls it.
func (h *holding) serverComes(t *testing.T) (joined <-chan error) {
	t.Helper()
	in, result := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(in)
		lease, err := h.Join(t.Context())
		if err == nil {
			t.Cleanup(lease.Release)
		}
		result <- err
	}()
	for end := time.Now().Add(time.Minute); !h.lease.Wanted() && time.Now().Before(end); {
		select {
		case <-in:
			return result
		case <-time.After(time.Millisecond):
		}
	}
	return result
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
			held := &holding{Coordinator: x.c}
			c := &oneList{Coordinator: held, t: t}
			var joined <-chan error
			x.c = c
			var once sync.Once
			report := x.run(Options{DeleteUntagged: true, Remote: remote, Tell: func(Event) {
				once.Do(func() { joined = held.serverComes(t) })
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
		keepAge       bool
		before, after bool // young: two minutes before the run began, and just after it
		exclusive     bool // still
	}{
		{false, false, false, true},
		{false, false, true, false},
		{true, true, true, true},
		{true, true, true, false},
	} {
		r := newRun(Options{Age: time.Hour, KeepAge: c.keepAge})
		r.exclusive = idle{}
		r.alone.Store(c.exclusive)
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

// ending is a store that calls end after each change.
type ending struct {
	storage.Store
	end func() error
}

func (s ending) Apply(ctx context.Context, section storage.Section, stages ...storage.Stage) error {
	if err := s.Store.Apply(ctx, section, stages...); err != nil {
		return err
	}
	return s.end()
}

// Where a run ends while links of a repository are deleted, because somebody ends it, those
// that are gone are counted and emitted.
func TestWhatIsGoneIsCountedWhenARunEnds(t *testing.T) {
	for _, serving := range []bool{false, true} {
		t.Run(fmt.Sprintf("serving=%v", serving), func(t *testing.T) {
			x := onMemory(t)
			if serving {
				lease, err := x.c.Join(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer lease.Release()
			}
			kept, keptBlobs := x.image("a", "v1", "kept")
			old, oldBlobs := x.image("a", "", "old")
			ctx, cancel := context.WithCancel(t.Context())
			x.s = ending{x.s, func() error { cancel(); return nil }}
			var gone []Event
			report, err := Run(ctx, Options{Store: x.s, Coordinator: x.c, DeleteUntagged: true, Tell: func(e Event) {
				if e.Kind == OldManifest || e.Kind == OldLayer {
					gone = append(gone, e)
				}
			}})
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("got %v", err)
			}
			if report.Manifests != (Count{2, 1, 1}) || report.LayerLinks != 0 || len(gone) != 1 || gone[0].Digest != old {
				t.Errorf("%+v, emitted %v", report, gone)
			}
			x.whole("kept", "a", kept, keptBlobs)
			for _, d := range oldBlobs {
				x.want("link", layout.LayerLink("a", d), true)
			}
		})
	}
}

// A server that comes while one large repository is being deleted at once is let in in the
// middle of that; the rest goes with lists, and nothing is counted twice.
func TestServerComesInTheMiddleOfARepository(t *testing.T) {
	const n = 4 * perChange
	x := onFiles(t)
	for i := range n {
		x.blob("a", fmt.Sprint("old ", i))
	}
	held := &holding{Coordinator: x.c}
	c := &oneList{Coordinator: held, t: t}
	x.c = c
	var joined <-chan error
	var once sync.Once
	x.s = ending{x.s, func() error {
		once.Do(func() { joined = held.serverComes(t) })
		return nil
	}}
	var layers, blobs int
	report := x.run(Options{Tell: func(e Event) {
		switch e.Kind {
		case OldLayer:
			layers++
		case OldBlob:
			blobs++
		}
	}})
	if err := <-joined; err != nil || c.published() < 2 || report.LayerLinks != n || report.Blobs != (Count{n, n, 0}) || layers != n || blobs != n {
		t.Errorf("%v, %d lists, %d and %d events, %+v", err, c.published(), layers, blobs, report)
	}
}

// A storage that says that it is busy while the run is exclusive ends the run: nothing is
// deleted without a list after that.
func TestBusyStorageEndsAnExclusiveRun(t *testing.T) {
	x := onMemory(t)
	for i := range 8 {
		x.image(oci.Name(fmt.Sprint("a", i)), "", fmt.Sprint("old ", i))
	}
	var changes atomic.Int64
	x.s = ending{x.s, func() error {
		if changes.Add(1) == 1 {
			return storage.ErrBusy
		}
		return nil
	}}
	c := &oneList{Coordinator: x.c, t: t}
	x.c = c
	if _, err := x.tryRun(Options{DeleteUntagged: true}); !errors.Is(err, storage.ErrBusy) || c.published() != 0 {
		t.Errorf("got %v, and %d lists", err, c.published())
	}
}

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
