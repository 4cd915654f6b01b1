package registry

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/hookedtest"
)

func TestCommitLeavesNothingBehind(t *testing.T) {
	onStores(t, func(t *testing.T, r *Registry) {
		pushBlob(t, r.Repository("a"), "content")
		pushBlob(t, r.Repository("a"), "")
		noUploads(t, r)
	})
}

// onFullDisk runs the test on each store there is. The next Apply after fill finds no room.
func onFullDisk(t *testing.T, test func(t *testing.T, repo Repository, fill func())) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			var full atomic.Bool
			s := &hookedtest.Store{Store: open(t), OnApply: func([]storage.Stage) error {
				if full.Swap(false) {
					return storage.ErrNoSpace
				}
				return nil
			}}
			test(t, newRegistry(s, Options{}).Repository("a"), func() { full.Store(true) })
		})
	}
}

// A full disk takes nothing from what earlier requests have acknowledged.
func TestFullDisk_AcknowledgedBytesStay(t *testing.T) {
	onFullDisk(t, func(t *testing.T, repo Repository, fill func()) {
		ctx := context.Background()
		u, err := repo.StartUpload(ctx, "")
		check(t, err)
		_, err = u.Append(ctx, strings.NewReader("content"), -1)
		check(t, err)
		check(t, u.Close())
		point := UploadPoint{Exact: true, Offset: 7, StartedAt: u.StartedAt()}
		u, err = repo.ResumeUpload(ctx, u.ID(), point)
		check(t, err)
		_, err = u.Append(ctx, strings.NewReader(" and more"), -1)
		check(t, err)
		fill()
		_, err = u.Commit(ctx, sum("content and more"))
		wantCode(t, err, oci.CodeUnknown)
		check(t, u.Close())
		u, err = repo.ResumeUpload(ctx, u.ID(), point)
		check(t, err)
		_, err = u.Commit(ctx, sum("content"))
		check(t, err)
		check(t, u.Close())
	})
}

// An upload without bytes continues after a failed commit.
func TestFullDisk_EmptyBlobGoesOn(t *testing.T) {
	onFullDisk(t, func(t *testing.T, repo Repository, fill func()) {
		ctx := t.Context()
		u, err := repo.StartUpload(ctx, "")
		check(t, err)
		fill()
		_, err = u.Commit(ctx, sum(""))
		wantCode(t, err, oci.CodeUnknown)
		check(t, u.Close())
		u, err = repo.ResumeUpload(ctx, u.ID(), UploadPoint{Exact: true, StartedAt: u.StartedAt()})
		check(t, err)
		_, err = u.Commit(ctx, sum(""))
		check(t, err)
		check(t, u.Close())
	})
}

// A client that hangs up while its blob is being committed leaves a whole blob.
func TestCommitOutlivesItsClient(t *testing.T) {
	onStores(t, func(t *testing.T, r *Registry) {
		repo := r.Repository("a")
		ctx, hangUp := context.WithCancel(context.Background())
		u, err := repo.StartUpload(ctx, "")
		check(t, err)
		defer u.Close()
		_, err = u.Append(ctx, strings.NewReader("content"), -1)
		check(t, err)
		hangUp()
		_, err = u.Commit(ctx, sum("content"))
		check(t, err)
		readBlob(t, repo, sum("content"))
	})
}

func TestConcurrentPushesOfOneDigest(t *testing.T) {
	onStores(t, func(t *testing.T, r *Registry) {
		content := strings.Repeat("shared layer ", 30_000)
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() {
				repo := r.Repository(oci.Name([]string{"a", "b", "c"}[i%3]))
				if _, err := tryPushBlob(repo, content, sum(content)); err != nil {
					t.Error(err)
				}
				if got := readBlob(t, repo, sum(content)); got != content {
					t.Errorf("%d bytes come back", len(got))
				}
			})
		}
		wg.Wait()
	})
}
