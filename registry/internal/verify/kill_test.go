package verify

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/driver/drivertest"
	"slipway/registry/internal/driver/memory"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
)

// mortal is a storage as a process sees it that dies after so many changes.
type mortal struct {
	driver.Driver
	left   int
	before func(op, path string) // each change, nil = nothing
}

var errDead = errors.New("the process is dead")

func (m *mortal) change(op, path string, do func() error) error {
	if m.left == 0 {
		return errDead
	}
	m.left--
	if m.before != nil {
		m.before(op, path)
	}
	return do()
}

func (m *mortal) SetAside(ctx context.Context, path, aside string) error {
	return m.change("set aside", path, func() error { return m.Driver.SetAside(ctx, path, aside) })
}

func (m *mortal) Restore(ctx context.Context, aside, path string) error {
	return m.change("restore", path, func() error { return m.Driver.Restore(ctx, aside, path) })
}

func (m *mortal) Prune(ctx context.Context, dir string) error {
	return m.change("prune", dir, func() error { return m.Driver.Prune(ctx, dir) })
}

func (m *mortal) Discard(ctx context.Context, path string) error {
	return m.change("discard", path, func() error { return m.Driver.Discard(ctx, path) })
}

func (m *mortal) WriteScratch(ctx context.Context, path string, content []byte) error {
	return m.change("write", path, func() error { return m.Driver.WriteScratch(ctx, path, content) })
}

func (m *mortal) Flush(ctx context.Context, dirs ...string) error {
	return m.change("flush", "", func() error { return m.Driver.Flush(ctx, dirs...) })
}

func (m *mortal) Stat(ctx context.Context, path string) (driver.Info, error) {
	if m.left == 0 {
		return driver.Info{}, errDead
	}
	return m.Driver.Stat(ctx, path)
}

func (m *mortal) List(ctx context.Context, dir, after string) iter.Seq2[driver.Entry, error] {
	if m.left == 0 {
		return func(yield func(driver.Entry, error) bool) { yield(driver.Entry{}, errDead) }
	}
	return m.Driver.List(ctx, dir, after)
}

// objects is the contents of all files below dir.
func objects(t *testing.T, d driver.Driver, dir string, into map[string]int) map[string]int {
	t.Helper()
	for e, err := range d.List(t.Context(), dir, "") {
		if errors.Is(err, driver.ErrNotExist) {
			break
		}
		check(t, err)
		if e.Dir {
			objects(t, d, dir+"/"+e.Name, into)
			continue
		}
		b, err := d.ReadFile(t.Context(), dir+"/"+e.Name, 1<<20)
		check(t, err)
		if !strings.HasSuffix(dir, "/verify") {
			into[string(b)]++
		}
	}
	return into
}

func same(a, b map[string]int) bool {
	for k, n := range a {
		if b[k] != n {
			return false
		}
	}
	return len(a) == len(b)
}

// Killed after any step, a repair has lost nothing, and the next one ends where
// one would have that was not killed.
func TestKilledRepair(t *testing.T) {
	for step, done := 0, false; !done; step++ {
		d := memory.New()
		repo := registry.New(registry.Options{Driver: d}).Repository("a")
		damaged, lost := push(t, repo, "damaged", "x"), push(t, repo, "lost", "y")
		healthy := push(t, repo, "healthy", "z")
		write(t, d, layout.BlobData(damaged[2]), "other")
		check(t, d.Remove(t.Context(), layout.BlobData(lost[0])))
		write(t, d, layout.TagCurrent("a", "empty"), "")
		before := objects(t, d, "/docker", map[string]int{})

		m := &mortal{Driver: d, left: step}
		_, err := Run(t.Context(), Options{Driver: m, Log: zap.NewNop(), Repair: true})
		if done = m.left > 0; done && err != nil {
			t.Fatal(err)
		}
		if after := objects(t, d, "/docker", map[string]int{}); !same(before, after) {
			t.Fatalf("killed after %d changes it has %v of %v", step, after, before)
		}
		run(t, d, true)
		if after := objects(t, d, "/docker", map[string]int{}); !same(before, after) {
			t.Fatalf("killed after %d changes, then run again, it has %v of %v", step, after, before)
		}
		for path, gone := range map[string]bool{
			layout.BlobData(damaged[2]): true, layout.RevisionLink("a", lost[0]): true, layout.TagCurrent("a", "lost"): true,
			layout.TagCurrent("a", "empty"): true, layout.BlobData(healthy[2]): false, layout.TagCurrent("a", "healthy"): false,
		} {
			if _, err := d.Stat(t.Context(), path); (err != nil) != gone {
				t.Errorf("killed after %d changes: %s: %v", step, path, err)
			}
		}
		for e, err := range d.List(t.Context(), layout.Checking, "") {
			if !absent(err) {
				t.Errorf("killed after %d changes: %s is still being looked at, %v", step, e.Name, err)
			}
		}
	}
}

// What a push has mended in the very moment in which it was put aside comes back,
// though the repair is killed before it could look again.
func TestKilledOverAPush(t *testing.T) {
	d := memory.New()
	repo := registry.New(registry.Options{Driver: d}).Repository("a")
	layer := push(t, repo, "v1", "x")[2]
	write(t, d, layout.BlobData(layer), "other")
	m := &mortal{Driver: d, left: 1}
	m.before = func(_, path string) {
		if path == layout.BlobData(layer) {
			time.Sleep(time.Millisecond)
			push(t, repo, "v1", "x")
		}
	}
	if _, err := Run(t.Context(), Options{Driver: m, Log: zap.NewNop(), Repair: true}); err == nil {
		t.Fatal("the repair was not killed")
	}
	if _, err := d.Stat(t.Context(), layout.BlobData(layer)); err == nil {
		t.Fatal("nothing was put aside")
	}
	check(t, Recover(t.Context(), d))
	if got, err := d.ReadFile(t.Context(), layout.BlobData(layer), 10); err != nil || string(got) != "x" {
		t.Errorf("in its place is %q, %v", got, err)
	}
}

// What a repair that lives has in its hands is left to it.
func TestRecoverLeavesWhatIsInHands(t *testing.T) {
	d := memory.New()
	repo := registry.New(registry.Options{Driver: d}).Repository("a")
	layer := push(t, repo, "v1", "x")[2]
	write(t, d, layout.BlobData(layer), "other")
	m := &mortal{Driver: d, left: 1000}
	m.before = func(op, path string) {
		if op != "set aside" || path != layout.Checking+layout.BlobData(layer) {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		if err := Recover(ctx, d); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it did not wait: %v", err)
		}
	}
	r, err := Run(t.Context(), Options{Driver: m, Log: zap.NewNop(), Repair: true})
	check(t, err)
	if r.Repaired != 1 {
		t.Errorf("got %+v", r)
	}
}

// later is a storage at a time when nobody who lives has anything in his hands any
// more that he had before.
type later struct{ driver.Driver }

func (l later) Now() time.Time { return l.Driver.Now().Add(2 * maxWait) }

// A process that is stopped does not keep others from being mended for ever.
func TestRecoverDoesNotWaitForEver(t *testing.T) {
	d := memory.New()
	write(t, d, layout.Checking+layout.TagCurrent("a", "v1"), "x")
	frozen := drivertest.Frozen{Driver: d, T: t}
	if err := Recover(context.Background(), frozen); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	check(t, Recover(context.Background(), later{frozen}))
	if _, err := d.Stat(t.Context(), layout.TagCurrent("a", "v1")); err != nil {
		t.Errorf("it is not put back: %v", err)
	}
}

// stuck is a storage that cannot restore anything.
type stuck struct{ driver.Driver }

func (stuck) Restore(_ context.Context, aside, _ string) error {
	return fmt.Errorf("%s: %w", aside, driver.ErrUnavailable)
}

// What cannot be put back is told in the same words each time, and not at any
// length: who asks again and again tells of it once.
func TestRecoverFailsTheSameWay(t *testing.T) {
	d := memory.New()
	for i := range 2 * maxTold {
		write(t, d, layout.Checking+layout.TagCurrent("a", oci.Tag(fmt.Sprint("t", i))), "x")
	}
	first := Recover(t.Context(), stuck{d})
	if !errors.Is(first, driver.ErrUnavailable) || strings.Count(first.Error(), "\n") != maxTold-1 {
		t.Errorf("got %v", first)
	}
	if again := Recover(t.Context(), stuck{d}); again.Error() != first.Error() {
		t.Errorf("got %v, then %v", first, again)
	}
}

// A repair that takes up a verification mends what that one only found.
func TestRepairAfterInterruption(t *testing.T) {
	d := memory.New()
	repo := registry.New(registry.Options{Driver: d}).Repository("a")
	var first oci.Digest
	for _, s := range []string{"a", "b", "c", "d"} {
		if b := pushBlob(t, repo, s).Digest; first == "" || b < first {
			first = b
		}
	}
	write(t, d, layout.BlobData(first), "damaged")
	ctx, cancel := context.WithCancel(t.Context())
	o := Options{Driver: &interrupted{d, first, cancel}, Log: zap.NewNop()}
	if r, err := Run(ctx, o); err == nil || r.Found[DamagedBlob] != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	r := run(t, d, true)
	if !r.Resumed || r.Found[DamagedBlob] != 1 || r.Repaired != 1 || r.Blobs != 4 {
		t.Errorf("got %+v", r)
	}
}

// interrupted ends the context when a blob after the one given is opened.
type interrupted struct {
	driver.Driver
	after oci.Digest
	end   context.CancelFunc
}

func (i *interrupted) Open(ctx context.Context, path string) (driver.File, error) {
	if path != layout.BlobData(i.after) {
		i.end()
	}
	return i.Driver.Open(ctx, path)
}
