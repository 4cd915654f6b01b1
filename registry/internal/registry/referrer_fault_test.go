package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/hookedtest"
)

var errDisk = errors.New("the disk fails")

// interrupted returns the storage with reads that fail after a number of them.
func interrupted(s storage.Store) (_ storage.Store, left *int) {
	left = new(int)
	return &hookedtest.Store{Store: s, OnRead: func(_ context.Context, op hookedtest.Op, _ string) error {
		if op == hookedtest.Open {
			if *left == 0 {
				return errDisk
			}
			*left--
		}
		return nil
	}}, left
}

// What was read before a failure, or before the client hung up, is not lost to
// those who ask later.
func TestReferrersAfterFailure(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			repo := newRegistry(store, Options{}).Repository("a")
			m := simpleImage(t, repo, "x")
			subject := put(t, repo, tagged("one"), m).Descriptor
			for i := range 8 {
				put(t, repo, tagged(fmt.Sprint("r", i)), image{Config: m.Config, Subject: &subject, Annotations: map[string]string{"n": fmt.Sprint(i)}})
			}
			failing, left := interrupted(store)
			again := newRegistry(failing, Options{}).Repository("a")
			for _, reads := range []int{3, 4} {
				*left = reads
				if _, _, err := again.Referrers(t.Context(), subject.Digest, "", "", 0); err == nil {
					t.Fatal("it did not fail")
				}
			}
			*left = 1000
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
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			repo := newRegistry(store, Options{DeleteEnabled: true}).Repository("a")
			d := pushImage(t, repo, "one", "x")
			failing, left := interrupted(store)
			r := newRegistry(failing, Options{})
			if _, _, err := r.Repository("a").Referrers(t.Context(), d, "", "", 0); err == nil {
				t.Fatal("it did not fail")
			}
			check(t, repo.Delete(t.Context()))
			removeObject(t, store, layout.BlobData(d))
			*left = 1000
			_, _, err := r.Repository("a").Referrers(t.Context(), d, "", "", 0)
			check(t, err)
			*left = 1000
			_, _, err = r.Repository("a").Referrers(t.Context(), d, "", "", 0)
			check(t, err)
			if n := 1000 - *left; n > 1 { // the fallback tag
				t.Errorf("%d objects are read again", n)
			}
		})
	}
}

// Those who ask at the same time have the manifests read once, not each his own.
func TestReferrersAreReadOnce(t *testing.T) {
	var reads atomic.Int64
	store := &hookedtest.Store{Store: stores["memory"](t), OnRead: func(_ context.Context, op hookedtest.Op, key string) error {
		if op == hookedtest.Open && strings.HasSuffix(key, "/data") {
			reads.Add(1)
			time.Sleep(time.Millisecond) // so that the others come meanwhile
		}
		return nil
	}}
	repo := newRegistry(store.Store, Options{}).Repository("a")
	for i := range 10 {
		pushImage(t, repo, fmt.Sprint("v", i), fmt.Sprint(i))
	}
	again := newRegistry(store, Options{}).Repository("a")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if _, _, err := again.Referrers(t.Context(), sum("x"), "", "", 0); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := reads.Load(); n != 10 {
		t.Errorf("%d manifests were read, of 10", n)
	}
}
