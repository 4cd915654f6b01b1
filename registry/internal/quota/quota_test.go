package quota

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/filesystem"
	"slipway/registry/internal/storage/hostile"
	"slipway/registry/internal/storage/memory"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func sum(s string) oci.Digest { return oci.SHA256.FromBytes([]byte(s)) }

// both is a store together with its coordinator.
type both interface {
	storage.Store
	storage.Coordinator
}

// pairs are stores that two replicas share.
var pairs = map[string]func(testing.TB) (a, b both){
	"memory": func(testing.TB) (a, b both) { m := memory.New(); return m, m },
	"filesystem": func(t testing.TB) (a, b both) {
		root := t.TempDir()
		open := func() both {
			s, err := filesystem.Open(root)
			check(t, err)
			t.Cleanup(func() { s.Close() })
			return struct {
				*filesystem.Store
				*filesystem.Coordinator
			}{s, s.Coordinator()}
		}
		return open(), open()
	},
	"hostile": func(t testing.TB) (a, b both) {
		bucket := hostile.New(hostile.Options{})
		p, q := bucket.Process(), bucket.Process()
		t.Cleanup(func() { p.Close(); q.Close() })
		return p, q
	},
}

// replica is a registry with quotas.
type replica struct {
	*registry.Registry
	quotas *Quotas
	store  both
}

func newReplica(t testing.TB, store both, quotas ...Quota) *replica {
	t.Helper()
	q := New(store, store, quotas, zap.NewNop())
	t.Cleanup(q.Close)
	return &replica{registry.New(registry.Options{Store: store, Coordinator: store, DeleteEnabled: true, Quota: q}), q, store}
}

func (r *replica) push(t testing.TB, name oci.Name, content string) error {
	t.Helper()
	u, err := r.Repository(name).StartUpload(t.Context(), "")
	check(t, err)
	defer u.Close()
	_, err = u.Append(t.Context(), strings.NewReader(content))
	check(t, err)
	_, err = u.Commit(t.Context(), sum(content))
	return err
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
	q := Quota{Prefix: "team/a"}
	for name, want := range map[oci.Name]bool{"team/a": true, "team/a/b": true, "team/ab": false, "team": false, "x/team/a": false} {
		if q.Covers(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

// Parallel pushes to both of two replicas fill a quota to the last byte and no further.
func TestQuota_ParallelPushes(t *testing.T) {
	for name, open := range pairs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const size, room, pushes = 100, 12, 30
			a, b := open(t)
			replicas := []*replica{newReplica(t, a, Quota{"team", room * size}), newReplica(t, b, Quota{"team", room * size})}
			check(t, replicas[0].push(t, "other", content(1000, 10*size)))
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
			if n := pushed.Load(); n != room {
				t.Errorf("%d blobs were taken, want %d", n, room)
			}
			wantDenied(t, replicas[1].push(t, "team", content(2000, size)))
			check(t, replicas[1].push(t, "teams", content(2000, size)))
		})
	}
}

// What a prefix has already counts once, however often it is pushed, mounted and linked.
func TestQuota_CountsEachBlobOnce(t *testing.T) {
	m := memory.New()
	r := newReplica(t, m, Quota{"team", 1000}, Quota{"team/a", 600})
	shared := content(1, 500)
	for range 3 {
		check(t, r.push(t, "team/a", shared))
		check(t, r.push(t, "team/b", shared))
	}
	_, err := r.Repository("team/c").MountBlob(t.Context(), sum(shared), "team/a", nil)
	check(t, err)
	check(t, r.push(t, "elsewhere", content(2, 501)))
	_, err = r.Repository("team/c").MountBlob(t.Context(), sum(content(2, 501)), "elsewhere", nil)
	wantDenied(t, err)
	wantDenied(t, r.push(t, "team/a", content(3, 101))) // of the quota within the other
	check(t, r.push(t, "team/b", content(3, 101)))

	manifest := []byte(`{"schemaVersion":2,"mediaType":"` + oci.MediaTypeIndex + `","manifests":[],"annotations":{"x":"` + strings.Repeat("y", 250) + `"}}`)
	put := func(name oci.Name, body []byte) error {
		_, err := r.Repository(name).PutManifest(t.Context(), oci.Reference{Tag: "v1"}, oci.MediaTypeIndex, body, nil)
		return err
	}
	wantDenied(t, put("team/b", append(manifest[:len(manifest)-1:len(manifest)-1], strings.Repeat(" ", 200)+"}"...)))
	wantDenied(t, put("team/a", manifest))
	for range 2 {
		check(t, put("team/b", manifest))
	}
}

// Deletions make room, restarts and a lost document change nothing, and pushes of a time
// without the quota count.
func TestQuota_DeletionsAndRestarts(t *testing.T) {
	m := memory.New()
	check(t, newReplica(t, m).push(t, "team/a", content(1, 400)))
	r := newReplica(t, m, Quota{"team", 1000})
	r.quotas.Count(t.Context())
	check(t, r.push(t, "team/a", content(2, 400)))
	wantDenied(t, r.push(t, "team/a", content(3, 400)))

	check(t, newReplica(t, m).push(t, "team/a", content(4, 150))) // by a process without the quota
	r = newReplica(t, m, Quota{"team", 1000})
	wantDenied(t, r.push(t, "team/a", content(5, 51)))
	check(t, r.push(t, "team/a", content(5, 50)))

	check(t, m.Apply(t.Context(), nil, storage.Stage{{Key: layout.Quota("team"), Delete: true}}))
	wantDenied(t, r.push(t, "team/a", content(6, 10)))

	r.quotas.list[0].pause = 0
	check(t, r.Repository("team/a").DeleteBlob(t.Context(), sum(content(1, 400))))
	var err error
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(time.Millisecond) { // ten times what the last count took
		if err = r.push(t, "team/b", content(6, 400)); err == nil {
			break
		}
	}
	check(t, err)
	wantDenied(t, r.push(t, "team/b", content(7, 10)))
}

// A count that runs while blobs are pushed and deleted never finds too little.
func TestQuota_CountsDuringPushes(t *testing.T) {
	for name, open := range pairs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := open(t)
			const limit = 1 << 20
			replicas := []*replica{newReplica(t, a, Quota{"team", limit}), newReplica(t, b, Quota{"team", limit})}
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					for n := range 4 {
						if err := replicas[i%2].push(t, oci.Name(fmt.Sprint("team/", i)), content(10*i+n, 100)); err != nil {
							t.Error(err)
						}
					}
				})
			}
			for _, r := range replicas {
				wg.Go(func() {
					for range 3 {
						if err := r.quotas.list[0].count(t.Context(), r.quotas.list[0].counts.Load()); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			c := replicas[0].quotas.list[0]
			check(t, c.doc.Refresh(t.Context()))
			if known, _ := c.doc.Last(); known.Bytes < 3200 || len(known.Counts) != 0 {
				t.Errorf("%+v, though 3200 bytes are there", known)
			}
			check(t, c.count(t.Context(), c.counts.Load()))
			check(t, c.doc.Refresh(t.Context()))
			if known, _ := c.doc.Last(); known.Bytes != 3200 || known.Charged != 0 {
				t.Errorf("after all: %+v", known)
			}
		})
	}
}
