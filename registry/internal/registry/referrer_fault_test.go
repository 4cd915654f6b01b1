package registry

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// interrupted is a storage whose reads fail after so many of them.
type interrupted struct {
	driver.Driver
	left int
}

func (i *interrupted) ReadFile(ctx context.Context, path string, limit int64) ([]byte, error) {
	if i.left == 0 {
		return nil, errDisk
	}
	i.left--
	return i.Driver.ReadFile(ctx, path, limit)
}

// What was read before a failure, or before the client hung up, is not lost to
// those who ask later.
func TestReferrersAfterFailure(t *testing.T) {
	for name, open := range drivers {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			repo := New(Options{Driver: store}).Repository("a")
			m := simpleImage(t, repo, "x")
			subject := put(t, repo, tagged("one"), m).Descriptor
			for i := range 8 {
				put(t, repo, tagged(fmt.Sprint("r", i)), image{Config: m.Config, Subject: &subject, Annotations: map[string]string{"n": fmt.Sprint(i)}})
			}
			failing := &interrupted{Driver: store}
			again := New(Options{Driver: failing}).Repository("a")
			for _, reads := range []int{3, 4} {
				failing.left = reads
				if _, _, err := again.Referrers(t.Context(), subject.Digest, "", "", 0); err == nil {
					t.Fatal("it did not fail")
				}
			}
			failing.left = 1000
			list, _, err := again.Referrers(t.Context(), subject.Digest, "", "", 0)
			check(t, err)
			if len(list) != 8 {
				t.Errorf("%d referrers, want 8", len(list))
			}
		})
	}
}

// What could not be read, and is gone by the next time, is not looked for again.
func TestReferrersForgetWhatIsGone(t *testing.T) {
	for name, open := range drivers {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			repo := New(Options{Driver: store, DeleteEnabled: true}).Repository("a")
			d := pushImage(t, repo, "one", "x")
			failing := &interrupted{Driver: store}
			r := New(Options{Driver: failing})
			if _, _, err := r.Repository("a").Referrers(t.Context(), d, "", "", 0); err == nil {
				t.Fatal("it did not fail")
			}
			check(t, repo.Delete(t.Context()))
			check(t, store.Remove(t.Context(), layout.BlobData(d)))
			failing.left = 1000
			_, _, err := r.Repository("a").Referrers(t.Context(), d, "", "", 0)
			check(t, err)
			if index, _ := r.referrers.get("a"); len(index.unread) > 0 {
				t.Errorf("%q are looked for again", index.unread)
			}
		})
	}
}

// Tags that somebody who died had in his hands do not bring back a repository
// that was deleted.
func TestDeletedRepositoryStaysAway(t *testing.T) {
	onDrivers(t, func(t *testing.T, r *Registry) {
		repo := r.Repository("a")
		pushImage(t, repo, "held", "x")
		pushImage(t, repo, "other", "x")
		check(t, r.driver.SetAside(t.Context(), "/docker/registry/v2/repositories/a/_manifests/tags/held/current/link", "/docker/registry/v2/slipway/expiring/a/_tags/held"))
		check(t, repo.Delete(t.Context()))
		check(t, r.RecoverTags(t.Context()))
		_, _, err := repo.Tags(t.Context(), -1, "")
		wantCode(t, err, oci.CodeNameUnknown)
	})
}

// counted is a storage that counts what is read, and takes its time.
type counted struct {
	driver.Driver
	reads atomic.Int64
}

func (c *counted) ReadFile(ctx context.Context, path string, limit int64) ([]byte, error) {
	if strings.HasSuffix(path, "/data") {
		c.reads.Add(1)
		time.Sleep(time.Millisecond)
	}
	return c.Driver.ReadFile(ctx, path, limit)
}

// Those who ask at the same time have the manifests read once, not each his own.
func TestReferrersAreReadOnce(t *testing.T) {
	store := &counted{Driver: drivers["memory"](t)}
	repo := New(Options{Driver: store.Driver}).Repository("a")
	for i := range 10 {
		pushImage(t, repo, fmt.Sprint("v", i), fmt.Sprint(i))
	}
	again := New(Options{Driver: store}).Repository("a")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if _, _, err := again.Referrers(t.Context(), sum("x"), "", "", 0); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := store.reads.Load(); n != 10 {
		t.Errorf("%d manifests were read, of 10", n)
	}
	if _, _, err := again.reg.Repository("none").Referrers(t.Context(), sum("x"), "", "", 0); err != nil || len(again.reg.referrers.entries) != 1 {
		t.Errorf("%d repositories are remembered, %v", len(again.reg.referrers.entries), err)
	}
}
