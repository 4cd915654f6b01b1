package registry

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
)

// renewals is a store that records what is renewed, and fails it if told to.
type renewals struct {
	both
	keys []string
	err  error
}

func (s *renewals) Apply(ctx context.Context, a *storage.Attempt, stages ...storage.Stage) error {
	for _, c := range slices.Concat(stages...) {
		if c.Renew {
			s.keys = append(s.keys, c.Key)
			if s.err != nil {
				return s.err
			}
		}
	}
	return s.both.Apply(ctx, a, stages...)
}

// take returns what was renewed since the last call, sorted.
func (s *renewals) take() []string {
	keys := s.keys
	s.keys = nil
	slices.Sort(keys)
	return keys
}

// Answers that confirm an object renew it, and so do pushes that rely on it. Pulls renew nothing.
func TestWritersRenew(t *testing.T) {
	m := memory.New() // whose attempts find everything stale
	store := &renewals{both: m}
	repo := newRegistry(store, Options{}).Repository("a")
	img := simpleImage(t, repo, "x")
	d := put(t, repo, tagged("v1"), img).Descriptor.Digest
	config, layer := layout.LayerLink("a", sum("config x")), layout.LayerLink("a", sum("layer x"))
	store.take()
	ctx := t.Context()
	for name, tt := range map[string]struct {
		use  func() error
		want []string
	}{
		"HEAD of a blob": {func() error { _, err := repo.StatBlob(ctx, sum("layer x")); return err }, []string{layer}},
		"HEAD of a manifest": {
			func() error { _, err := repo.StatManifest(ctx, oci.Reference{Digest: d}); return err },
			[]string{layout.RevisionLink("a", d)},
		},
		"push of a manifest": {
			func() error { _, err := repo.PutManifest(ctx, tagged("v2"), "", img.bytes(), nil); return err },
			[]string{config, layer},
		},
		"push of an index": {
			func() error {
				index := image{MediaType: oci.MediaTypeIndex, Manifests: []oci.Descriptor{{MediaType: oci.MediaTypeManifest, Digest: d, Size: int64(len(img.bytes()))}}}
				_, err := repo.PutManifest(ctx, tagged("index"), "", index.bytes(), nil)
				return err
			},
			[]string{layout.RevisionLink("a", d)},
		},
		"mount": {
			func() error {
				_, err := again(repo.reg, Options{}).Repository("b").MountBlob(ctx, sum("layer x"), "a", nil)
				return err
			},
			[]string{layout.BlobData(sum("layer x"))},
		},
		"pull": {func() error {
			_, one := repo.Manifest(ctx, tagged("v1"))
			_, two := repo.Manifest(ctx, oci.Reference{Digest: d})
			readBlob(t, repo, sum("layer x"))
			return errors.Join(one, two)
		}, nil},
		"HEAD on a read-only registry": {func() error {
			_, err := again(repo.reg, Options{ReadOnly: true}).Repository("a").StatBlob(ctx, sum("layer x"))
			return err
		}, nil},
	} {
		time.Sleep(time.Millisecond) // the links are older than the attempt
		store.take()
		check(t, tt.use())
		slices.Sort(tt.want)
		if got := store.take(); !slices.Equal(got, tt.want) {
			t.Errorf("%s renews %q, want %q", name, got, tt.want)
		}
	}
	store.err = storage.ErrReadOnly // what cannot be written cannot be collected
	_, err := repo.StatBlob(ctx, sum("layer x"))
	check(t, err)
	store.err = storage.ErrNotExist // it was deleted between the look and the renewal
	_, err = repo.StatBlob(ctx, sum("layer x"))
	wantCode(t, err, oci.CodeBlobUnknown)
}

// overdue is a store whose attempts are over at once, for a while.
type overdue struct {
	both
	left int
}

func (o *overdue) Apply(ctx context.Context, a *storage.Attempt, stages ...storage.Stage) error {
	if o.left > 0 && a != nil {
		o.left--
		return storage.ErrExpired
	}
	return o.both.Apply(ctx, a, stages...)
}

// An attempt that took too long begins again; if that is no use, the client is asked to.
func TestAttemptIsRepeated(t *testing.T) {
	store := &overdue{both: memory.New()}
	r := newRegistry(store, Options{})
	repo := r.Repository("a")
	m := simpleImage(t, repo, "x")
	for _, left := range []int{1, 2} {
		store.left = left
		_, err := r.Repository("b").MountBlob(t.Context(), sum("layer x"), "a", nil)
		check(t, err)
		store.left = left
		put(t, repo, tagged("v1"), m)
		store.left = left
		_, err = repo.StatBlob(t.Context(), sum("layer x"))
		check(t, err)
		if store.left != 0 {
			t.Error("nothing was tried in vain")
		}
	}
	store.left = 1000
	_, err := repo.PutManifest(t.Context(), tagged("v2"), "", m.bytes(), nil)
	wantBusy(t, err)
	_, err = repo.StatBlob(t.Context(), sum("layer x"))
	wantBusy(t, err)
}

// frozen is a store whose process stands still after it has put the key, once.
type frozen struct {
	both
	key string
}

func (s *frozen) Apply(ctx context.Context, a *storage.Attempt, stages ...storage.Stage) error {
	err := s.both.Apply(ctx, a, stages...)
	for _, c := range slices.Concat(stages...) {
		if c.Key == s.key && !c.Renew {
			s.key = ""
			time.Sleep(storage.AttemptLimit)
		}
	}
	return err
}

// What was written long before the answer may be dated before the grace period: it is written again.
func TestAnswerAfterTheAttempt_WritesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &frozen{both: memory.New()}
		r := newRegistry(store, Options{})
		m := simpleImage(t, r.Repository("a"), "x")
		for name, tt := range map[string]struct {
			key string
			do  func() error
		}{
			"mount": {layout.LayerLink("b", sum("layer x")), func() error {
				_, err := r.Repository("b").MountBlob(t.Context(), sum("layer x"), "a", nil)
				return err
			}},
			"manifest": {layout.RevisionLink("a", sum(string(m.bytes()))), func() error {
				_, err := r.Repository("a").PutManifest(t.Context(), oci.Reference{Digest: sum(string(m.bytes()))}, "", m.bytes(), nil)
				return err
			}},
		} {
			store.key = tt.key
			check(t, tt.do())
			if store.key != "" {
				t.Fatalf("%s: nothing was put", name)
			}
			info, err := store.Stat(t.Context(), tt.key)
			check(t, err)
			if age := time.Since(info.Modified); age > time.Second {
				t.Errorf("%s: the answer confirms what was written %v ago", name, age)
			}
		}
	})
}

// wantBusy fails the test unless the client is asked to try again later.
func wantBusy(t *testing.T, err error) {
	t.Helper()
	wantCode(t, err, oci.CodeUnavailable)
	if e := (*oci.Error)(nil); !errors.As(Fault(err), &e) || e.RetryAfter <= 0 {
		t.Errorf("%v asks for no retry", err)
	}
}

// deleting is a store in which somebody deletes a manifest before each tag is set.
type deleting struct {
	both
	d    oci.Digest
	left int
}

func (s *deleting) Apply(ctx context.Context, a *storage.Attempt, stages ...storage.Stage) error {
	for i, stage := range stages {
		if s.left > 0 && strings.HasSuffix(stage[0].Key, "/current/link") && !stage[0].Delete {
			s.left--
			if err := s.both.Apply(ctx, nil, storage.Stage{{Key: layout.RevisionLink("a", s.d), Delete: true}}); err != nil {
				return err
			}
		}
		if err := s.both.Apply(ctx, a, stages[i]); err != nil {
			return err
		}
	}
	return nil
}

// A push that overlaps a deletion leaves no tag without its manifest.
func TestPushBesideADeletion(t *testing.T) {
	store := &deleting{both: memory.New()}
	repo := newRegistry(store, Options{}).Repository("a")
	m := simpleImage(t, repo, "x")
	store.d = sum(string(m.bytes()))
	store.left = 1
	put(t, repo, tagged("v1"), m)
	_, err := repo.Manifest(t.Context(), tagged("v1"))
	check(t, err)
	store.left = 1000
	_, err = repo.PutManifest(t.Context(), tagged("v1"), "", m.bytes(), nil)
	wantBusy(t, err)
}
