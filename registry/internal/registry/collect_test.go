package registry

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"slipway/registry/internal/maintenance/collect"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
)

// stepping is a store where something happens before one of its calls.
type stepping struct {
	both
	mu        sync.Mutex
	step, at  int
	meanwhile func()
}

func (s *stepping) next() {
	s.mu.Lock()
	now := s.step == s.at
	s.step++
	s.mu.Unlock()
	if now {
		s.meanwhile()
	}
}

func (s *stepping) Begin() *storage.Attempt {
	s.next()
	return s.both.Begin()
}

func (s *stepping) Collect(ctx context.Context) (storage.Collection, error) {
	s.next()
	c, err := s.both.Collect(ctx)
	return steppingCollection{c, s}, err
}

type steppingCollection struct {
	storage.Collection
	s *stepping
}

func (c steppingCollection) Delete(ctx context.Context, infos []storage.Info) ([]storage.Info, error) {
	c.s.next()
	defer c.s.next()
	return c.Collection.Delete(ctx, infos)
}

func (s *stepping) Stat(ctx context.Context, key string) (storage.Info, error) {
	s.next()
	return s.both.Stat(ctx, key)
}

func (s *stepping) Open(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	s.next()
	return s.both.Open(ctx, key, offset, length)
}

func (s *stepping) List(ctx context.Context, prefix string, o storage.ListOptions) iter.Seq2[storage.Info, error] {
	s.next()
	return s.both.List(ctx, prefix, o)
}

func (s *stepping) Apply(ctx context.Context, a *storage.Attempt, stages ...storage.Stage) error {
	for i, stage := range stages {
		s.next()
		if i == len(stages)-1 {
			defer s.next()
		}
		if err := s.both.Apply(ctx, a, stage); err != nil {
			return err
		}
	}
	return nil
}

// A collection that runs between any two steps of a writer, or the other way round, takes
// nothing away that an acknowledged manifest needs and, within the grace period, nothing
// that was confirmed to a client.
func TestCollectionBetweenTwoSteps(t *testing.T) {
	ctx := context.Background()
	layer, config := sum("layer x"), sum("config x")
	img := func() image {
		c := oci.Descriptor{MediaType: "application/vnd.oci.image.config.v1+json", Digest: config, Size: int64(len("config x"))}
		l := oci.Descriptor{MediaType: "application/vnd.oci.image.layer.v1.tar", Digest: layer, Size: int64(len("layer x"))}
		return image{Config: &c, Layers: []oci.Descriptor{l}}
	}
	push := func(repo Repository) error {
		_, err := repo.PutManifest(ctx, tagged("v1"), "", img().bytes(), nil)
		return err
	}
	upload := func(repo Repository) error {
		_, one := tryPushBlob(repo, "layer x", layer)
		_, two := tryPushBlob(repo, "config x", config)
		return errors.Join(one, two)
	}
	mount := func(_, b Repository) error {
		_, one := b.MountBlob(ctx, layer, "a", nil)
		_, two := b.MountBlob(ctx, config, "a", nil)
		if one != nil || two != nil {
			return errors.Join(one, two)
		}
		if err := push(b); err != nil {
			return fmt.Errorf("mounted: %s", err.Error())
		}
		return nil
	}
	for name, tt := range map[string]struct {
		write func(a, b Repository) error
		// unknown says that the client may have to upload again: it was told nothing.
		unknown oci.Code
		kept    bool // another image needs the blobs
	}{
		"push of a manifest": {func(a, _ Repository) error { return push(a) }, oci.CodeManifestBlobUnknown, false},
		"HEAD and push": {func(a, _ Repository) error {
			_, one := a.StatBlob(ctx, layer)
			_, two := a.StatBlob(ctx, config)
			if one != nil || two != nil {
				return errors.Join(one, two)
			}
			if err := push(a); err != nil {
				return fmt.Errorf("told that it is there: %s", err.Error())
			}
			return nil
		}, oci.CodeBlobUnknown, false},
		"mount and push":                 {mount, oci.CodeBlobUnknown, false},
		"mount over a link and push":     {mount, "", true},
		"push of a manifest without tag": {func(a, _ Repository) error { return push(a) }, "", true},
		"upload and push":                {func(_, b Repository) error { return errors.Join(upload(b), push(b)) }, "", false},
		"upload over a link and push":    {func(_, b Repository) error { return errors.Join(upload(b), push(b)) }, "", true},
		"HEAD by digest and push of an index": {func(a, _ Repository) error {
			child := oci.SHA256.FromBytes(img().bytes())
			m, err := a.StatManifest(ctx, oci.Reference{Digest: child})
			if err != nil {
				return err
			}
			index := image{MediaType: oci.MediaTypeIndex, Manifests: []oci.Descriptor{m.Descriptor}}
			if _, err := a.PutManifest(ctx, tagged("index"), "", index.bytes(), nil); err != nil {
				return fmt.Errorf("told that it is there: %s", err.Error())
			}
			return nil
		}, oci.CodeManifestUnknown, false},
		"delete and push again": {func(a, _ Repository) error {
			_, err := a.DeleteManifest(ctx, oci.SHA256.FromBytes(img().bytes()))
			if err != nil && !oci.HasCode(err, oci.CodeManifestUnknown) && !oci.HasCode(err, oci.CodeNameUnknown) {
				return err
			}
			return errors.Join(upload(a), push(a))
		}, "", false},
	} {
		for _, age := range []time.Duration{time.Hour, 0} {
			// One of the two stops at each of its steps while the other one runs, or waits.
			for _, stopped := range []string{"writer", "collector"} {
				t.Run(fmt.Sprint(name, " at age ", age, ", stopping the ", stopped), func(t *testing.T) {
					t.Parallel()
					for at, more := 0, true; more; at++ {
						m := memory.New()
						m.SetClock(func() time.Time { return time.Now().Add(-2 * time.Hour) })
						old := newRegistry(m, Options{DeleteEnabled: true}).Repository("a")
						check(t, upload(old))
						child := put(t, old, oci.Reference{Digest: oci.SHA256.FromBytes(img().bytes())}, img()).Descriptor.Digest
						if tt.kept { // the blobs are needed in a, and their links in b are not
							other := img()
							other.Annotations = map[string]string{"other": "yes"}
							put(t, old, tagged("kept"), other)
							check(t, upload(newRegistry(m, Options{}).Repository("b")))
						}
						if name != "HEAD by digest and push of an index" && name != "push of a manifest without tag" {
							_, err := old.DeleteManifest(ctx, child)
							check(t, err)
						}
						m.SetClock(time.Now)

						s := &stepping{both: m, at: at}
						by := map[string]both{"writer": m, "collector": m}
						by[stopped] = s
						r := newRegistry(by["writer"], Options{DeleteEnabled: true})
						leave, err := m.Lock(ctx, storage.LockServers, true)
						check(t, err)
						write := func() error { return tt.write(r.Repository("a"), r.Repository("b")) }
						run := func() error {
							_, err := collect.Run(ctx, collect.Options{
								Store: by["collector"], Age: age, KeepAge: true, DeleteUntagged: true,
							})
							return err
						}
						var written, collected error
						if stopped == "collector" {
							collected, written, more = s.interleave(run, write)
						} else {
							written, collected, more = s.interleave(write, run)
						}
						check(t, collected)
						if tolerated := age == 0 || tt.unknown != "" && unknownTo(written, tt.unknown); written != nil && !tolerated {
							t.Fatalf("step %d: %v", at, written)
						}
						for range 2 {
							for _, name := range []oci.Name{"a", "b"} {
								wantImages(t, fmt.Sprint("step ", at), newRegistry(m, Options{}).Repository(name))
							}
							check(t, run())
						}
						leave()
					}
				})
			}
		}
	}
}

// interleave calls first, which works on s, and calls second when s stops it. more is false if first never got that far.
func (s *stepping) interleave(first, second func() error) (one, other error, more bool) {
	done := make(chan error, 1)
	s.meanwhile = func() {
		go func() { done <- second() }()
		select {
		case err := <-done:
			done <- err
		case <-time.After(10 * time.Millisecond): // it waits for the other one
		}
	}
	one = first()
	if more = s.step > s.at; more {
		other = <-done
	}
	return one, other, more
}

// unknownTo reports whether the error is that the repository does not have something.
func unknownTo(err error, code oci.Code) bool {
	var several oci.Errors
	if errors.As(err, &several) {
		return several[0].Code == code
	}
	return oci.HasCode(err, code) || oci.HasCode(err, oci.CodeNameUnknown)
}

// wantImages checks that all that the tags of a repository lead to is there.
func wantImages(t *testing.T, when string, repo Repository) {
	t.Helper()
	tags, _, err := repo.Tags(context.Background(), -1, "")
	if oci.HasCode(err, oci.CodeNameUnknown) {
		return
	}
	check(t, err)
	var whole func(ref oci.Reference)
	whole = func(ref oci.Reference) {
		m, err := repo.find(context.Background(), ref)
		if err != nil {
			t.Fatalf("%s: %s: %v", when, ref, err)
		}
		parsed, err := oci.ReadManifest(m.Bytes)
		check(t, err)
		for _, child := range parsed.Manifests {
			whole(oci.Reference{Digest: child.Digest})
		}
		blobs := parsed.Layers
		if parsed.Config != nil {
			blobs = append(blobs, *parsed.Config)
		}
		for _, d := range blobs {
			b, err := repo.OpenBlob(context.Background(), d.Digest)
			if err != nil {
				t.Fatalf("%s: %s: %v", when, d.Digest, err)
			}
			b.Close()
		}
	}
	for _, tag := range tags {
		whole(tagged(tag))
	}
}
