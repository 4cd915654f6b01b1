package collect

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/hostile"
)

// A prefix that cannot be read ends the run before anything is deleted: who knows
// what it needs.
func TestUnlistableRepositoryEndsTheRun(t *testing.T) {
	x := onMemory(t)
	x.blob("a", "garbage")
	x.s = unlistable{x.s}
	if _, err := x.tryRun(Options{}); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	x.want("bytes", layout.BlobData(oci.SHA256.FromBytes([]byte("garbage"))), true)
}

type unlistable struct{ storage.Store }

func (s unlistable) List(ctx context.Context, prefix string, o storage.ListOptions) iter.Seq2[storage.Info, error] {
	if prefix == layout.Repository("a") {
		return func(yield func(storage.Info, error) bool) { yield(storage.Info{}, storage.ErrUnavailable) }
	}
	return s.Store.List(ctx, prefix, o)
}

// On a store whose requests fail or arrive late, and whose collectors die, nothing
// that is needed goes, and in the end all garbage does.
func TestFaultsAndDeaths(t *testing.T) {
	b := hostile.New(hostile.Options{Lease: 150 * time.Millisecond, MaxLate: 3 * time.Millisecond})
	setup := b.Process()
	defer setup.Close()
	x := volume{t: t, s: setup, c: setup, put: putter(t, setup, b.SetClock), remote: true}
	lease, err := setup.Join(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release()
	kept, keptBlobs := x.image("a", "v1", "kept")
	child, childBlobs := x.image("b", "", "child")
	index := x.manifest("b", "v1", document{Manifests: []descriptor{{Digest: child}}})
	var looks []func()
	whole := func() {
		x.whole("kept", "a", kept, keptBlobs)
		x.whole("child", "b", child, childBlobs)
		x.whole("index", "b", index, nil)
	}
	for try := range 12 {
		name := oci.Name(fmt.Sprint("c", try))
		m, blobs := x.image(name, "", fmt.Sprint("old ", try))
		looks = append(looks, func() { x.gone("garbage", name, m, blobs) })
		b.SetFault(hostile.Random(uint64(try), 0.03))
		p, events := b.Process(), 0
		o := Options{Store: p, Coordinator: p, Remote: true, DeleteUntagged: true, Wait: 2 * time.Second, Tell: func(Event) {
			if events++; events == 4+3*try && try%2 == 0 {
				p.Kill()
			}
		}}
		_, err := Run(t.Context(), o)
		for begun := time.Now(); errors.Is(err, storage.ErrBusy) && time.Since(begun) < 2*time.Second; _, err = Run(t.Context(), o) {
			time.Sleep(20 * time.Millisecond) // the lock of the one before
		}
		t.Log(err)
		b.SetFault(nil)
		p.Close()
		whole()
	}
	for giveUp := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		_, err := x.tryRun(Options{DeleteUntagged: true, Wait: 2 * time.Second})
		if err == nil {
			break
		}
		if !errors.Is(err, storage.ErrBusy) && !errors.Is(err, errLockLost) || time.Now().After(giveUp) {
			t.Fatal(err)
		}
	}
	whole()
	for _, look := range looks {
		look()
	}
}

// A collector that is stopped between its last look and the deletion deletes nothing when it
// continues: its list is void by then, and a client may rely on what it had listed.
func TestStoppedCollectorDeletesNothing(t *testing.T) {
	b := hostile.New(hostile.Options{Lease: time.Second})
	server, p := b.Process(), b.Process()
	defer server.Close()
	defer p.Close()
	x := volume{t: t, s: server, c: server, put: putter(t, server, b.SetClock), remote: true}
	lease, err := server.Join(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release()
	d := oci.SHA256.FromBytes([]byte("bytes"))
	x.put(layout.BlobData(d), []byte("bytes"), day)
	stopped := make(chan struct{})
	b.SetFault(func(r hostile.Request) hostile.Fault {
		if r.Op == "LIST" && strings.Contains(r.Key, "/linked/") { // the last look
			select {
			case <-stopped:
			default:
				p.Freeze()
				close(stopped)
			}
		}
		return hostile.None
	})
	ended := make(chan error, 1)
	go func() {
		for begun := time.Now(); ; {
			_, err := Run(context.Background(), Options{Store: p, Coordinator: p, Remote: true, Wait: 10 * time.Second})
			select {
			case <-stopped:
			default:
				if (errors.Is(err, errLockLost) || errors.Is(err, storage.ErrBusy)) && time.Since(begun) < 30*time.Second {
					time.Sleep(20 * time.Millisecond)
					continue // a machine that is too slow for the lease
				}
			}
			ended <- err
			return
		}
	}()
	select {
	case <-stopped:
	case err := <-ended:
		t.Fatalf("the run ended before its last look: %v", err)
	}
	defer p.Thaw()
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		s, err := server.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		void := !s.Listed(layout.BlobData(d))
		s.End()
		if void {
			break
		}
		if time.Since(begun) > 30*time.Second {
			t.Fatal("the list of a collector that is stopped is not void")
		}
	}
	p.Thaw()
	if err := <-ended; !errors.Is(err, errLockLost) {
		t.Errorf("the run ended with %v", err)
	}
	x.want("bytes that a client relies on", layout.BlobData(d), true)
}
