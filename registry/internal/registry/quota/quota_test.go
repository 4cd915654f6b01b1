package quota_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/registry/quota"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/filesystem"
	"slipway/registry/internal/storage/hostiletest"
	"slipway/registry/internal/storage/memory"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func sum(s string) oci.Digest { return oci.SHA256.FromBytes([]byte(s)) }

// pairs are stores that two replicas share.
var pairs = map[string]func(testing.TB) (a, b storage.Store){
	"memory": func(testing.TB) (a, b storage.Store) { m := memory.New(); return m, m },
	"filesystem": func(t testing.TB) (a, b storage.Store) {
		root := t.TempDir()
		open := func() storage.Store {
			s, err := filesystem.Open(root)
			check(t, err)
			t.Cleanup(func() { s.Close() })
			return s
		}
		return open(), open()
	},
	"hostile": func(t testing.TB) (a, b storage.Store) {
		bucket := hostiletest.New(hostiletest.Options{})
		p, q := bucket.Process(), bucket.Process()
		t.Cleanup(func() { p.Close(); q.Close() })
		return p, q
	},
}

// replica is a registry with quotas.
type replica struct {
	*registry.Registry
	quotas *quota.Quotas
}

func newReplica(t testing.TB, store storage.Store, quotas ...quota.Quota) *replica {
	t.Helper()
	q := quota.New(store, quotas, zap.NewNop())
	t.Cleanup(q.Close)
	return &replica{registry.New(registry.Options{Store: store, DeleteEnabled: true, Quota: q}), q}
}

func (r *replica) push(t testing.TB, name oci.Name, content string) error {
	t.Helper()
	u, err := r.Repository(name).StartUpload(t.Context(), "")
	check(t, err)
	defer u.Close()
	if _, err = u.Append(t.Context(), strings.NewReader(content), -1); err != nil {
		return errors.Join(err, u.Cancel(t.Context()))
	}
	_, err = u.Commit(t.Context(), sum(content))
	return err
}

// wantBytes fails the test unless the first quota counts that many bytes.
func (r *replica) wantBytes(t testing.TB, want int64) {
	t.Helper()
	if got := r.quotas.Bytes(0); got != want {
		t.Errorf("the quota counts %d bytes, want %d", got, want)
	}
}

// wantDenied fails the test unless the client is told that a quota is used up.
func wantDenied(t testing.TB, err error) {
	t.Helper()
	var told *oci.Error
	if !errors.As(err, &told) || told.Code != oci.CodeDenied || !strings.Contains(told.Text(), "the quota of ") {
		t.Errorf("got %v, want DENIED and a sentence about the quota", err)
	}
}

func content(i, size int) string {
	text := fmt.Sprint(i, " ")
	return text + strings.Repeat("x", size-len(text))
}

func TestQuota_Covers(t *testing.T) {
	q := quota.Quota{Prefix: "team/a"}
	for name, want := range map[oci.Name]bool{"team/a": true, "team/a/b": true, "team/ab": false, "team": false, "x/team/a": false} {
		if q.Covers(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

// Parallel pushes to both of two replicas fill a quota to the last byte. They exceed it at most by what one replica
// takes between two counts of the other.
func TestQuota_ParallelPushes(t *testing.T) {
	for name, open := range pairs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const size, room, pushes = 100, 12, 30
			a, b := open(t)
			team := quota.Quota{Prefix: "team", Limit: room * size}
			replicas := []*replica{newReplica(t, a, team), newReplica(t, b, team)}
			check(t, replicas[0].push(t, "other", content(1000, 10*size)))
			replicas[0].quotas.Count(t.Context())
			var pushed atomic.Int32
			var wg sync.WaitGroup
			for i := range pushes {
				wg.Go(func() {
					switch err := replicas[i%2].push(t, oci.Name(fmt.Sprint("team/", i%3)), content(i, size)); err {
					case nil:
						pushed.Add(1)
					default:
						wantDenied(t, err)
					}
				})
			}
			wg.Wait()
			for i := range room { // uploads at the same time refuse each other
				_ = replicas[i%2].push(t, "team", content(2000+i, size))
			}
			for _, r := range replicas {
				r.quotas.Count(t.Context())
				stored := r.quotas.Bytes(0)
				if stored < room*size || stored > 2*room*size {
					t.Errorf("%d bytes are stored, want %d", stored, room*size)
				}
				wantDenied(t, r.push(t, "team", content(3000, size)))
			}
			check(t, replicas[1].push(t, "teams", content(3000, size)))
		})
	}
}

// Unfinished uploads count, whether or not their size is known before, until they are
// cancelled, purged or completed.
func TestQuota_UnfinishedUploads(t *testing.T) {
	const mib = 1 << 20
	for name, open := range pairs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, _ := open(t)
			r := newReplica(t, store, quota.Quota{Prefix: "team", Limit: 5 * mib})
			r.quotas.SetPause(time.Hour) // charges alone decide
			r.quotas.Count(t.Context())
			blob := content(1, 4*mib)
			var ids []string
			received := int64(0)
			for i := range 10 {
				u, err := r.Repository("team/a").StartUpload(t.Context(), "")
				check(t, err)
				size := int64(-1)
				if i%2 > 0 {
					size = int64(len(blob))
				}
				n, err := u.Append(t.Context(), io.MultiReader(strings.NewReader(blob)), size)
				if received += n; i > 0 {
					wantDenied(t, err)
				} else {
					check(t, err)
				}
				if i%2 > 0 && n > 0 {
					t.Errorf("upload %d: %d bytes were received before it was refused", i, n)
				}
				check(t, u.Close())
				ids = append(ids, u.ID())
			}
			if received > 5*mib {
				t.Errorf("%d bytes were received", received)
			}
			r.wantBytes(t, received)
			for _, id := range ids[1:] {
				u, err := r.Repository("team/a").ResumeUpload(t.Context(), id, registry.UploadPoint{})
				check(t, err)
				check(t, u.Cancel(t.Context()))
				check(t, u.Close())
			}
			r.wantBytes(t, 4*mib)

			u, err := r.Repository("team/a").ResumeUpload(t.Context(), ids[0], registry.UploadPoint{})
			check(t, err)
			_, err = u.Commit(t.Context(), sum(blob))
			check(t, err)
			check(t, u.Close())
			r.wantBytes(t, 4*mib)
			check(t, r.push(t, "team/a", content(2, mib/2)))
			check(t, r.push(t, "team/a", content(2, mib/2))) // is there already
			r.wantBytes(t, 4*mib+mib/2)

			u, err = r.Repository("team/a").StartUpload(t.Context(), "")
			check(t, err)
			_, err = u.Append(t.Context(), strings.NewReader(content(3, mib/2)), -1)
			check(t, err)
			check(t, u.Close())
			wantDenied(t, r.push(t, "team/a", content(4, 10)))
			_, err = r.PurgeUploads(t.Context(), registry.PurgeOptions{})
			check(t, err)
			r.wantBytes(t, 4*mib+mib/2)
			check(t, r.push(t, "team/a", content(4, mib/2)))
		})
	}
}

// A count that runs while an upload is under way takes its bytes neither for missing nor twice.
func TestQuota_CountDuringUpload(t *testing.T) {
	for name, open := range pairs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, _ := open(t)
			r := newReplica(t, store, quota.Quota{Prefix: "team", Limit: 4 << 20})
			r.quotas.Count(t.Context())
			u, err := r.Repository("team/a").StartUpload(t.Context(), "")
			check(t, err)
			blob := content(1, 300<<10)
			pipe, w := io.Pipe()
			appended := make(chan error, 1)
			go func() {
				_, err := u.Append(context.Background(), pipe, int64(len(blob)))
				appended <- err
			}()
			for _, part := range []string{blob[:100<<10], blob[100<<10 : 200<<10], blob[200<<10:]} {
				_, err := io.WriteString(w, part)
				check(t, err)
				r.quotas.Count(t.Context())
				r.wantBytes(t, int64(len(blob)))
			}
			check(t, w.Close())
			check(t, <-appended)
			_, err = u.Commit(t.Context(), sum(blob))
			check(t, err)
			check(t, u.Close())
			r.quotas.Count(t.Context())
			r.wantBytes(t, int64(len(blob)))
		})
	}
}

// What several repositories have counts in each of them, however often it is pushed to one.
func TestQuota_CountsPerRepository(t *testing.T) {
	m := memory.New()
	r := newReplica(t, m, quota.Quota{Prefix: "team", Limit: 2350}, quota.Quota{Prefix: "team/a", Limit: 1000})
	shared := content(1, 500)
	for range 3 {
		check(t, r.push(t, "team/a", shared))
		check(t, r.push(t, "team/b", shared))
	}
	check(t, r.push(t, "team/a", content(4, 400)))
	wantDenied(t, r.push(t, "team/a", content(3, 101))) // by the quota within the other
	for range 2 {
		_, err := r.Repository("team/c").MountBlob(t.Context(), sum(shared), "team/a", nil)
		check(t, err)
	}
	r.wantBytes(t, 1900)
	r.quotas.Count(t.Context())
	r.wantBytes(t, 1900)
	check(t, r.push(t, "elsewhere", content(2, 501)))
	_, err := r.Repository("team/c").MountBlob(t.Context(), sum(content(2, 501)), "elsewhere", nil)
	wantDenied(t, err)

	manifest := []byte(`{"schemaVersion":2,"mediaType":"` + oci.MediaTypeIndex + `","manifests":[],"annotations":{"x":"` + strings.Repeat("y", 250) + `"}}`)
	put := func(name oci.Name, body []byte) error {
		_, err := r.Repository(name).PutManifest(t.Context(), oci.Reference{Tag: "v1"}, oci.MediaTypeIndex, body, nil)
		return err
	}
	wantDenied(t, put("team/b", append(manifest[:len(manifest)-1:len(manifest)-1], strings.Repeat(" ", 250)+"}"...)))
	wantDenied(t, put("team/a", manifest))
	for range 2 {
		check(t, put("team/b", manifest))
	}
	r.wantBytes(t, int64(1900+len(manifest)))
}

// Deletions make room, restarts and a lost document change nothing, and pushes of a time
// without the quota count.
func TestQuota_DeletionsAndRestarts(t *testing.T) {
	m, team := memory.New(), quota.Quota{Prefix: "team", Limit: 1000}
	check(t, newReplica(t, m).push(t, "team/a", content(1, 400)))
	r := newReplica(t, m, team)
	check(t, r.push(t, "team/a", content(2, 400)))
	wantDenied(t, r.push(t, "team/a", content(3, 400)))

	check(t, newReplica(t, m).push(t, "team/a", content(4, 150))) // by a process without the quota
	r = newReplica(t, m, team)
	r.quotas.Count(t.Context()) // as each server does at its start
	wantDenied(t, r.push(t, "team/a", content(5, 51)))
	check(t, r.push(t, "team/a", content(5, 50)))

	check(t, m.Apply(t.Context(), nil, storage.Stage{{Key: layout.Quota("team"), Delete: true}}))
	wantDenied(t, r.push(t, "team/a", content(6, 10)))
	r.wantBytes(t, 1000)

	check(t, r.Repository("team/a").DeleteBlob(t.Context(), sum(content(1, 400))))
	wantDenied(t, r.push(t, "team/b", content(6, 400))) // the last count is believed for some time
	r.quotas.SetPause(0)
	var err error
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(time.Millisecond) { // ten times what the last count took
		if err = r.push(t, "team/b", content(6, 400)); err == nil {
			break
		}
	}
	check(t, err)
	wantDenied(t, r.push(t, "team/b", content(7, 10)))
}

// A count that runs while blobs are pushed misses at most the blob that each pusher is
// committing, and the next count is exact.
func TestQuota_CountsDuringPushes(t *testing.T) {
	for name, open := range pairs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, _ := open(t)
			r := newReplica(t, store, quota.Quota{Prefix: "team", Limit: 1 << 30})
			r.quotas.Count(t.Context())
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					for n := range 4 {
						if err := r.push(t, oci.Name(fmt.Sprint("team/", i)), content(10*i+n, 100)); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Go(func() {
				for range 5 {
					r.quotas.Count(t.Context())
				}
			})
			wg.Wait()
			if known := r.quotas.Bytes(0); known < 3200-8*100 {
				t.Errorf("the quota counts %d bytes, though 3200 are there and 8 pushers commit 100 each", known)
			}
			r.quotas.Count(t.Context())
			r.wantBytes(t, 3200)
		})
	}
}

// What an inner quota refuses is not charged to the outer one.
func TestQuota_RefusalChargesNoOther(t *testing.T) {
	r := newReplica(t, memory.New(), quota.Quota{Prefix: "team", Limit: 1000}, quota.Quota{Prefix: "team/a", Limit: 100})
	for range 20 {
		wantDenied(t, r.push(t, "team/a", content(1, 200)))
	}
	r.wantBytes(t, 0)
}

// watchedStore calls listed before it lists a prefix.
type watchedStore struct {
	*memory.Memory
	listed func(ctx context.Context, prefix string) error
}

func (w *watchedStore) List(ctx context.Context, prefix string, o storage.ListOptions) iter.Seq2[storage.Info, error] {
	if err := w.listed(ctx, prefix); err != nil {
		return func(yield func(storage.Info, error) bool) { yield(storage.Info{}, err) }
	}
	return w.Memory.List(ctx, prefix, o)
}

// A caller that waits for a count can give up, and Close ends the count.
func TestQuota_CountEnds(t *testing.T) {
	began := make(chan struct{}, 1)
	w := &watchedStore{memory.New(), func(ctx context.Context, prefix string) error {
		if prefix != layout.Repository("team") {
			return nil
		}
		select {
		case began <- struct{}{}:
		default:
		}
		<-ctx.Done()
		return ctx.Err()
	}}
	r := newReplica(t, w, quota.Quota{Prefix: "team", Limit: 1000})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		r.quotas.Count(ctx)
		close(ended)
	}()
	<-began
	cancel()
	<-ended
	pushed := make(chan error, 1)
	go func() { pushed <- r.push(t, "team/a", "x") }()
	r.quotas.Close()
	if err := <-pushed; err == nil {
		t.Error("a push that could not be counted")
	}
}

// A start takes the last count of any process, and counts before the first push if that is damaged.
func TestQuota_LastCount(t *testing.T) {
	store, team := memory.New(), quota.Quota{Prefix: "team", Limit: 250}
	check(t, newReplica(t, store, team).push(t, "team/a", content(1, 100)))
	for last, want := range map[string]int64{`{"bytes":120,"counted":"2026-01-01T00:00:00Z"}`: 121, "garbage": 101, "": 101, `{"bytes": "many"}`: 101} {
		check(t, store.Apply(t.Context(), nil, storage.Stage{{Key: layout.Quota("team"), Content: []byte(last)}}))
		r := newReplica(t, store, team)
		u, err := r.Repository("team/b").StartUpload(t.Context(), "")
		check(t, err)
		_, err = u.Append(t.Context(), strings.NewReader("x"), 1)
		check(t, err)
		r.wantBytes(t, want)
		check(t, u.Cancel(t.Context()))
		check(t, u.Close())
	}
}
