package registry

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/registry/internal/collect"
	"slipway/registry/internal/driver"
	"slipway/registry/internal/driver/memory"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// A collection that began while nobody served counts no promise. What a server
// that comes while it runs tells of stays all the same, though the link is young
// and was promised by the process before.
func TestPromiseToldWhileACollectionRuns(t *testing.T) {
	for name, open := range drivers {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			before := New(Options{Driver: store})
			d := pushBlob(t, before.Repository("a"), "layer").Digest
			check(t, store.Touch(t.Context(), layout.LayerLink("a", d), time.Now().Add(-time.Minute)))
			_, release, err := store.Alone(t.Context()) // so the run takes the long way
			check(t, err)
			r := New(Options{Driver: store, PromiseAge: time.Hour})
			told := false
			_, err = collect.Run(t.Context(), collect.Options{Driver: store, Age: time.Hour, Tell: func(e collect.Event) {
				if e.Kind != collect.Repository || told {
					return
				}
				told = true
				release()
				leave, err := r.Serve(context.Background())
				check(t, err)
				t.Cleanup(leave)
				_, err = r.Repository("a").StatBlob(context.Background(), d)
				check(t, err)
			}})
			check(t, err)
			if !told {
				t.Fatal("nobody was told")
			}
			if got := readBlob(t, r.Repository("a"), d); got != "layer" {
				t.Errorf("the blob is %q", got)
			}
		})
	}
}

// foreign is a storage whose files are somebody else's.
type foreign struct{ driver.Driver }

func (f foreign) Touch(context.Context, string, time.Time) error { return driver.ErrReadOnly }

func (f foreign) WriteScratch(_ context.Context, path string, _ []byte) error {
	panic("a durable link gives way to one that is not: " + path)
}

// A link that cannot be touched is written anew, as durably as it was.
func TestPromiseOfAForeignLink(t *testing.T) {
	store := memory.New()
	d := pushBlob(t, New(Options{Driver: store}).Repository("a"), "layer").Digest
	path := layout.LayerLink("a", d)
	check(t, store.Touch(t.Context(), path, time.Now().Add(-time.Hour)))
	_, err := New(Options{Driver: foreign{store}, PromiseAge: time.Hour}).Repository("a").StatBlob(t.Context(), d)
	check(t, err)
	info, err := store.Stat(t.Context(), path)
	check(t, err)
	if age := time.Since(info.Changed); age > time.Minute {
		t.Errorf("the link is %v old", age)
	}
}

// shut is a storage where a collection lets nobody in.
type shut struct{ driver.Driver }

func (s shut) Serve(ctx context.Context) (func(), error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Pushes that are held back are told so soon, however many wait.
func TestPushesDoNotQueueForACollection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{Driver: shut{memory.New()}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		leave, _ := r.Serve(ctx)
		defer leave()
		start := time.Now()
		errs := make(chan error)
		for range 8 {
			go func() {
				_, err := r.Repository("a").StartUpload(context.Background(), "")
				errs <- err
			}()
		}
		for range 8 {
			err := <-errs
			wantCode(t, err, oci.CodeUnavailable)
			if !strings.Contains(err.Error(), "does not let it in") {
				t.Error(err)
			}
		}
		if waited := time.Since(start); waited > 15*time.Second {
			t.Errorf("they waited %v", waited)
		}
	})
}

// Whoever mounts a blob is another client than who uploaded it, however soon it
// comes: what the uploader gives up stays.
func TestMountSharesAPromise(t *testing.T) {
	store := drivers["filesystem"](t) // where both links are one file
	r := New(Options{Driver: store, DeleteEnabled: true, PromiseAge: time.Hour})
	leave, err := r.Serve(t.Context())
	check(t, err)
	defer leave()
	a := r.Repository("a")
	u, err := a.StartUpload(t.Context(), "")
	check(t, err)
	u.WillLook()
	_, err = u.Append(t.Context(), strings.NewReader("layer"))
	check(t, err)
	layer, err := u.Commit(t.Context(), sum("layer"))
	check(t, err)
	check(t, u.Close())
	put, err := a.PutManifest(t.Context(), oci.Reference{Tag: "v1"}, "", image{Config: &layer}.bytes(), nil)
	check(t, err)
	_, err = r.Repository("b").MountBlob(t.Context(), layer.Digest, "a", nil)
	check(t, err)
	_, err = a.DeleteManifest(t.Context(), put.Descriptor.Digest)
	check(t, err)
	info, err := store.Stat(t.Context(), layout.LayerLink("b", layer.Digest))
	check(t, err)
	if age := time.Since(info.Changed); age > time.Minute {
		t.Errorf("the link that was mounted is %v old", age)
	}
}

// When there is no room for promises, none is looked through for each new one:
// only when some may have run out.
func TestFullPromisesCostNothing(t *testing.T) {
	var p promises
	const age = time.Hour
	start := time.Now()
	for i := range maxSingle {
		p.give(fmt.Sprint(i), single{given: start}, age)
	}
	for i := range 20_000 { // some minute, if each looks through all
		p.give(fmt.Sprint("more", i), single{given: start}, age)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	if len(p.single) != maxSingle {
		t.Errorf("%d are kept", len(p.single))
	}
	later := start.Add(age + age/promiseScans + time.Second)
	p.give("later", single{given: later}, age)
	if len(p.single) != 1 {
		t.Errorf("%d are kept that have run out", len(p.single)-1)
	}
}
