package verify

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registrytest"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/hookedtest"
	"slipway/registry/internal/storage/memory"
)

// mortal is a store of a process that dies after a number of changes.
type mortal struct {
	storage.Store
	left int
}

var errDead = errors.New("the process is dead")

func (m *mortal) Apply(ctx context.Context, a *storage.Attempt, stages ...storage.Stage) error {
	for _, stage := range stages {
		for _, c := range stage {
			if m.left == 0 {
				return errDead
			}
			m.left--
			if err := m.Store.Apply(ctx, a, storage.Stage{c}); err != nil {
				return err
			}
		}
	}
	return nil
}

// contents is those of all objects, quarantined or not, except the progress.
func contents(t *testing.T, s storage.Store) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for info, err := range s.List(t.Context(), "/docker", storage.ListOptions{Flat: true}) {
		check(t, err)
		if info.Key != layout.Verified {
			all[strings.TrimPrefix(info.Key[strings.LastIndex(info.Key, "/docker"):], "/docker")+"="+read(t, s, info.Key)] = true
		}
	}
	return all
}

// Killed after any change, a repair has lost nothing, and the next one ends where
// one would have that was not killed.
func TestKilledRepair(t *testing.T) {
	for step, done := 0, false; !done; step++ {
		s := memory.New()
		repo := rules(s).Repository("a")
		damaged, lost := push(t, repo, "damaged", "x"), push(t, repo, "lost", "y")
		healthy := push(t, repo, "healthy", "z")
		write(t, s, layout.BlobData(damaged[2]), "other")
		remove(t, s, layout.BlobData(lost[0]))
		write(t, s, layout.TagCurrent("a", "empty"), "")
		before := contents(t, s)

		m := &mortal{Store: s, left: step}
		_, err := Run(t.Context(), Options{Store: m, Log: zap.NewNop(), Repair: true})
		if done = m.left > 0; done && err != nil {
			t.Fatal(err)
		}
		run(t, s, true)
		after := contents(t, s)
		for object := range before {
			if !after[object] {
				t.Fatalf("killed after %d changes, then run again, it has lost %s", step, object)
			}
		}
		for key, gone := range map[string]bool{
			layout.BlobData(damaged[2]): true, layout.RevisionLink("a", lost[0]): true, layout.TagCurrent("a", "lost"): true, layout.TagIndex("a", "lost", lost[0]): true,
			layout.TagCurrent("a", "empty"): true, layout.BlobData(healthy[2]): false, layout.TagCurrent("a", "healthy"): false,
		} {
			if _, err := s.Stat(t.Context(), key); (err != nil) != gone {
				t.Errorf("killed after %d changes: %s: %v", step, key, err)
			}
		}
		if step > 100 {
			t.Fatal("it does not end")
		}
	}
}

// A copy into the quarantine that fails or is interrupted leaves nothing that nobody
// removes.
func TestUnfinishedCopyIsRemoved(t *testing.T) {
	onStores(t, func(t *testing.T, s store) {
		d := push(t, rules(s).Repository("a"), "damaged", "x")[2]
		write(t, s, layout.BlobData(d), strings.Repeat("y", maxSmall+1))
		left := func() bool {
			u, err := s.OpenUpload(t.Context(), copying, storage.UploadOptions{})
			if err == nil {
				size, state := u.Progress()
				check(t, u.Suspend(t.Context(), size, state))
			} else if !absent(err) {
				t.Error(err)
			}
			return err == nil
		}
		full := &hookedtest.Store{Store: s, OnApply: func(stages []storage.Stage) error {
			if stages[0][0].Upload != nil { // the copy of a large object
				return storage.ErrNoSpace
			}
			return nil
		}}
		report, err := Run(t.Context(), Options{Store: full, Log: zap.NewNop(), Repair: true})
		if err != nil || report.Found[DamagedBlob] != 1 || report.Quarantined != 0 || left() {
			t.Fatalf("%v, %+v, or the copy is left", err, report)
		}
		u, err := s.OpenUpload(t.Context(), copying, storage.UploadOptions{Create: true}) // of a process that died
		check(t, err)
		_, err = u.Write([]byte("half"))
		check(t, err)
		check(t, u.Suspend(t.Context(), 4, nil))
		if report := run(t, s, true); report.Found[DamagedBlob] != 1 || report.Quarantined != 2 || left() {
			t.Errorf("%+v, or the copy is left", report)
		}
	})
}

// A repair starts over after a verification that found damage and was interrupted.
func TestRepairAfterInterruption(t *testing.T) {
	s := memory.New()
	repo := rules(s).Repository("a")
	var first oci.Digest
	for _, content := range []string{"a", "b", "c", "d"} {
		if b := registrytest.Push(t, repo, content).Digest; first == "" || b < first {
			first = b
		}
	}
	write(t, s, layout.BlobData(first), "damaged")
	ctx, cancel := context.WithCancel(t.Context())
	store := &hookedtest.Store{Store: s, OnRead: func(_ context.Context, op hookedtest.Op, key string) error {
		if op == hookedtest.Open && key > layout.BlobData(first) && strings.HasPrefix(key, layout.Blobs) {
			cancel()
		}
		return nil
	}}
	o := Options{Store: store, Log: zap.NewNop()}
	if r, err := Run(ctx, o); err == nil || r.Found[DamagedBlob] != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	r := run(t, s, true)
	if r.Resumed || r.Found[DamagedBlob] != 1 || r.Quarantined != 2 || r.Blobs != 4 {
		t.Errorf("got %+v", r)
	}
}
