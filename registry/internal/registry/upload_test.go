package registry

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// appendTo takes the upload up, adds to it and lets go.
func appendTo(t testing.TB, repo Repository, id, content string) {
	t.Helper()
	u, err := repo.ResumeUpload(context.Background(), id, UploadPoint{})
	check(t, err)
	defer u.Close()
	n, err := u.Append(context.Background(), strings.NewReader(content), -1)
	check(t, err)
	if n != int64(len(content)) {
		t.Fatalf("%d bytes of %d appended", n, len(content))
	}
}

func start(t testing.TB, repo Repository) string {
	t.Helper()
	u, err := repo.StartUpload(context.Background(), "")
	check(t, err)
	check(t, u.Close())
	return u.ID()
}

func TestUploadInChunks_RestartBetweenThem(t *testing.T) {
	onStores(t, func(t *testing.T, r *Registry) {
		ctx, content := context.Background(), ""
		repo := r.Repository("a")
		id := start(t, repo)
		for _, chunk := range []string{"one,", "", strings.Repeat("two", 200_000), "three"} {
			appendTo(t, repo, id, chunk)
			content += chunk
			repo = again(r, Options{}).Repository("a")
			st, err := repo.UploadStatus(ctx, id)
			check(t, err)
			if st.Size != int64(len(content)) || time.Since(st.StartedAt) > time.Minute {
				t.Fatalf("status %+v after %d bytes", st, len(content))
			}
		}
		u, err := repo.ResumeUpload(ctx, id, UploadPoint{})
		check(t, err)
		defer u.Close()
		d := sum(content)
		_, err = u.Commit(ctx, d)
		check(t, err)
		if got := readBlob(t, repo, d); got != content {
			t.Errorf("%d bytes come back of %d", len(got), len(content))
		}
		_, err = repo.UploadStatus(ctx, id)
		wantCode(t, err, oci.CodeBlobUploadUnknown)
	})
}

func TestUnknownUpload(t *testing.T) {
	onStores(t, func(t *testing.T, r *Registry) {
		ctx, repo := context.Background(), r.Repository("a")
		id := start(t, r.Repository("b"))
		for _, id := range []string{id, layout.NewUploadID(), "", "..", "../../b/_uploads/" + id, "x", strings.Repeat("a", 1000)} {
			_, err := repo.ResumeUpload(ctx, id, UploadPoint{})
			wantCode(t, err, oci.CodeBlobUploadUnknown)
			_, err = repo.UploadStatus(ctx, id)
			wantCode(t, err, oci.CodeBlobUploadUnknown)
		}
	})
}

// noRoom is a store without room for another upload.
type noRoom struct{ both }

func (noRoom) OpenUpload(context.Context, string, storage.UploadOptions) (storage.Upload, error) {
	return nil, storage.ErrNoSpace
}

// To cancel an upload that has no bytes needs no room for any.
func TestCancelOnAFullDisk(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			r := newRegistry(noRoom{open(t)}, Options{})
			u, err := r.Repository("a").StartUpload(t.Context(), "")
			check(t, err)
			defer u.Close()
			_, err = u.Append(t.Context(), strings.NewReader("content"), -1)
			wantCode(t, err, oci.CodeUnknown)
			check(t, u.Cancel(t.Context()))
			noUploads(t, r)
		})
	}
}

func noUploads(t *testing.T, r *Registry) {
	t.Helper()
	for u, err := range r.Uploads(context.Background()) {
		check(t, err)
		t.Errorf("%+v is left", u)
	}
}

func TestPurge(t *testing.T) {
	onStores(t, func(t *testing.T, r *Registry) {
		ctx := context.Background()
		now := time.Now()
		r = again(r, Options{Now: func() time.Time { return now }})
		pushImage(t, r.Repository("a/b"), "t", "x")
		old := start(t, r.Repository("a"))
		appendTo(t, r.Repository("a"), old, "bytes")
		deep := start(t, r.Repository("a/b/c"))
		busy, err := r.Repository("a").StartUpload(ctx, "")
		check(t, err)
		defer busy.Close()
		putObject(t, r.store, layout.Upload("z", "0b5e0b3c-6f0e-4a3c-9d0c-1f2e3d4c5b6a")+"/hashstates/sha256/0", "x") // no startedat

		report, err := r.PurgeUploads(ctx, PurgeOptions{Age: time.Hour})
		check(t, err)
		if len(report.Purged) > 0 {
			t.Fatalf("fresh uploads are purged: %v", report.Purged)
		}
		now = now.Add(2 * time.Hour)
		dry, err := r.PurgeUploads(ctx, PurgeOptions{Age: time.Hour, DryRun: true})
		check(t, err)
		_, err = r.Repository("a").UploadStatus(ctx, old)
		check(t, err)
		wet, err := r.PurgeUploads(ctx, PurgeOptions{Age: time.Hour})
		check(t, err)
		if !slices.Equal(dry.Purged, wet.Purged) || dry.Bytes != wet.Bytes || wet.Errors != 0 {
			t.Errorf("dry run %+v, wet run %+v", dry, wet)
		}
		for repo, id := range map[oci.Name]string{"a": old, "a/b/c": deep} {
			if !slices.ContainsFunc(wet.Purged, func(u UnfinishedUpload) bool { return u.Repository == repo && u.ID == id }) {
				t.Errorf("the upload of %s is not in %v", repo, wet.Purged)
			}
			_, err = r.Repository(repo).ResumeUpload(ctx, id, UploadPoint{})
			wantCode(t, err, oci.CodeBlobUploadUnknown)
		}
		if slices.ContainsFunc(wet.Purged, func(u UnfinishedUpload) bool { return u.ID == busy.ID() }) {
			t.Error("an upload that a request works on is purged")
		}
		_, err = busy.Append(ctx, strings.NewReader("still here"), -1)
		check(t, err)
		_, err = busy.Commit(ctx, sum("still here"))
		check(t, err)
	})
}

// hashed is a store that counts what is read again of uploads.
type hashed struct {
	both
	read *atomic.Int64
}

func (h hashed) OpenUpload(ctx context.Context, key string, o storage.UploadOptions) (storage.Upload, error) {
	u, err := h.both.OpenUpload(ctx, key, o)
	if err != nil {
		return nil, err
	}
	return rereading{u, h.read}, nil
}

// Apply wants uploads of the store itself.
func (h hashed) Apply(ctx context.Context, a *storage.Attempt, stages ...storage.Stage) error {
	for _, stage := range stages {
		for i, c := range stage {
			if u, ok := c.Upload.(rereading); ok {
				stage[i].Upload = u.Upload
			}
		}
	}
	return h.both.Apply(ctx, a, stages...)
}

type rereading struct {
	storage.Upload
	read *atomic.Int64
}

func (u rereading) Reader(ctx context.Context, offset int64) (io.ReadCloser, error) {
	size, _ := u.Progress()
	u.read.Add(size - offset)
	return u.Upload.Reader(ctx, offset)
}

// The running hash of an upload goes from request to request: nothing is read again.
func TestRunningHashIsCarriedOn(t *testing.T) {
	onStores(t, func(t *testing.T, r *Registry) {
		var read atomic.Int64
		store := hashed{r.opts.Store, &read}
		repo, content := newRegistry(store, Options{}).Repository("a"), ""
		id := start(t, repo)
		for i := range 4 {
			chunk := strings.Repeat(string(rune('a'+i)), 300_000)
			appendTo(t, repo, id, chunk)
			content += chunk
		}
		u, err := repo.ResumeUpload(t.Context(), id, UploadPoint{Exact: true, Offset: int64(len(content))})
		check(t, err)
		defer u.Close()
		_, err = u.Commit(t.Context(), sum(content))
		check(t, err)
		if n := read.Load(); n > 0 {
			t.Errorf("%d bytes were read again", n)
		}
	})
}

// Bytes that vanish between two requests, by whatever hand, do not stay in the
// hash.
func TestShrunkUpload(t *testing.T) {
	onStores(t, func(t *testing.T, r *Registry) {
		ctx, repo := context.Background(), r.Repository("a")
		id := start(t, repo)
		appendTo(t, repo, id, "these bytes vanish")
		w, err := r.store.OpenUpload(ctx, layout.UploadData("a", id), storage.UploadOptions{})
		check(t, err)
		check(t, w.Cancel(ctx))
		w, err = r.store.OpenUpload(ctx, layout.UploadData("a", id), storage.UploadOptions{Create: true})
		check(t, err)
		_, err = w.Write([]byte("other"))
		check(t, err)
		check(t, w.Suspend(ctx, 5, nil))
		u, err := repo.ResumeUpload(ctx, id, UploadPoint{})
		check(t, err)
		defer u.Close()
		_, err = u.Append(ctx, strings.NewReader(" bytes"), -1)
		check(t, err)
		_, err = u.Commit(ctx, sum("other bytes"))
		check(t, err)
	})
}
