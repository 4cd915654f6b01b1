package collect

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

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

// The workers of a run that was exclusive take turns with their lists once a server
// has come.
func TestOneListAtATime(t *testing.T) {
	x := onFiles(t)
	for i := range 60 {
		x.image(oci.Name(fmt.Sprint("a", i)), "v1", fmt.Sprint("kept ", i))
		x.image(oci.Name(fmt.Sprint("a", i)), "", fmt.Sprint("old ", i))
	}
	c := &oneList{Coordinator: x.c, t: t}
	joined := make(chan error, 1)
	x.c = c
	report := x.run(Options{DeleteUntagged: true, Tell: func() func(Event) {
		var once sync.Once
		return func(Event) {
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
		}
	}()})
	if err := <-joined; err != nil || c.lists < 2 || report.Blobs.Freed != 180 || report.Blobs.Kept != 180 {
		t.Errorf("%v, %d lists, %+v", err, c.lists, report)
	}
}

// A worker that lets a server in after another one has done so withdraws no list.
func TestLetInTwice(t *testing.T) {
	x := onMemory(t)
	r := newRun(Options{Store: x.s, Coordinator: x.c, Log: zap.NewNop()})
	lock, err := x.c.Lock(t.Context(), storage.CollectorLock)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	if err := r.begin(t.Context()); err != nil || !r.exclusive.now() {
		t.Fatalf("it is not exclusive: %v", err)
	}
	if err := r.letIn(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = r.listed(t.Context(), []string{"/a"}, func(ctx context.Context) error {
		late := make(chan error, 1)
		go func() { late <- r.letIn(ctx) }()
		select {
		case err := <-late:
			t.Errorf("it has not waited for the deletion: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
		s, err := x.c.Begin(ctx)
		if err != nil {
			return err
		}
		defer s.End()
		if !s.Listed("/a") {
			t.Error("the list was withdrawn while it was deleted")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
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
