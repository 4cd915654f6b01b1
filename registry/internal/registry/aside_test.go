package registry

import (
	"strings"
	"testing"
	"time"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// putAside does to an object what a collector of garbage does.
func putAside(t *testing.T, d driver.Driver, paths ...string) {
	t.Helper()
	for _, path := range paths {
		check(t, d.SetAside(t.Context(), path, layout.Aside(path)))
	}
}

func wantPlace(t *testing.T, d driver.Driver, path string, inPlace bool) {
	t.Helper()
	_, err := d.Stat(t.Context(), path)
	if (err == nil) != inPlace {
		t.Errorf("%s is in its place: %v, want %v", path, err == nil, inPlace)
	}
}

// What is aside is still there for everybody; reading leaves it there, telling
// brings it back.
func TestAsideIsStillThere(t *testing.T) {
	onDrivers(t, func(t *testing.T, r *Registry) {
		repo := r.Repository("a")
		blob := pushBlob(t, repo, "content").Digest
		link, data := layout.LayerLink("a", blob), layout.BlobData(blob)
		putAside(t, r.driver, link, data)
		if got := readBlob(t, repo, blob); got != "content" {
			t.Errorf("read %q", got)
		}
		wantPlace(t, r.driver, link, false)
		if _, err := repo.StatBlob(t.Context(), blob); err != nil {
			t.Fatal(err)
		}
		wantPlace(t, r.driver, link, true)
		wantPlace(t, r.driver, data, true)

		putAside(t, r.driver, link, data)
		_, err := r.Repository("b").MountBlob(t.Context(), blob, "a", nil)
		check(t, err)
		wantPlace(t, r.driver, data, true)

		putAside(t, r.driver, link)
		check(t, repo.DeleteBlob(t.Context(), blob))
		_, err = repo.StatBlob(t.Context(), blob)
		wantCode(t, err, oci.CodeBlobUnknown)
	})
}

func TestPushBringsBack(t *testing.T) {
	onDrivers(t, func(t *testing.T, r *Registry) {
		repo := r.Repository("a")
		m := simpleImage(t, repo, "x")
		putAside(t, r.driver, layout.LayerLink("a", m.Config.Digest), layout.BlobData(m.Config.Digest), layout.BlobData(m.Layers[0].Digest))
		child := put(t, repo, oci.Reference{Digest: sum(string(m.bytes()))}, m).Descriptor
		for _, d := range []oci.Digest{m.Config.Digest, m.Layers[0].Digest} {
			wantPlace(t, r.driver, layout.LayerLink("a", d), true)
			wantPlace(t, r.driver, layout.BlobData(d), true)
		}
		paths := []string{
			layout.RevisionLink("a", child.Digest), layout.BlobData(child.Digest),
			layout.LayerLink("a", m.Layers[0].Digest), layout.BlobData(m.Layers[0].Digest),
		}
		putAside(t, r.driver, paths...)
		put(t, repo, tagged("multi"), image{MediaType: oci.MediaTypeIndex, Manifests: []oci.Descriptor{child}})
		for _, path := range paths {
			wantPlace(t, r.driver, path, true)
		}
	})
}

// A manifest comes back with all that it needs, or not at all.
func TestManifestComesBackWhole(t *testing.T) {
	onDrivers(t, func(t *testing.T, r *Registry) {
		repo := r.Repository("a")
		m := simpleImage(t, repo, "x")
		d := put(t, repo, tagged("v1"), m).Descriptor.Digest
		revision, layer := layout.RevisionLink("a", d), layout.BlobData(m.Layers[0].Digest)
		putAside(t, r.driver, revision, layer)
		_, err := repo.Manifest(t.Context(), tagged("v1"))
		check(t, err)
		wantPlace(t, r.driver, revision, false)
		_, err = repo.Manifest(t.Context(), oci.Reference{Digest: d})
		check(t, err)
		wantPlace(t, r.driver, revision, true)
		wantPlace(t, r.driver, layer, true)

		putAside(t, r.driver, revision, layer)
		check(t, r.driver.Discard(t.Context(), layout.Aside(layer)))
		_, err = repo.Manifest(t.Context(), oci.Reference{Digest: d})
		wantCode(t, err, oci.CodeManifestUnknown)
		wantPlace(t, r.driver, revision, false)
	})
}

func TestDeletedManifestDoesNotComeBack(t *testing.T) {
	onDrivers(t, func(t *testing.T, r *Registry) {
		repo := r.Repository("a")
		d := pushImage(t, repo, "v1", "x")
		putAside(t, r.driver, layout.RevisionLink("a", d))
		_, err := repo.DeleteManifest(t.Context(), d)
		check(t, err)
		_, err = repo.Manifest(t.Context(), oci.Reference{Digest: d})
		wantCode(t, err, oci.CodeManifestUnknown)
	})
}

// served is a registry that gives promises.
func served(t *testing.T, open func(testing.TB) driver.Driver) *Registry {
	t.Helper()
	r := New(Options{Driver: open(t), DeleteEnabled: true, PromiseAge: time.Hour})
	leave, err := r.Serve(t.Context())
	check(t, err)
	t.Cleanup(leave)
	return r
}

// promised says whether a collector would think that somebody relies on a link.
func promised(t *testing.T, r *Registry, path string) bool {
	t.Helper()
	info, err := r.driver.Stat(t.Context(), path)
	check(t, err)
	return time.Since(info.Changed) < time.Hour
}

func TestTellingRenews(t *testing.T) {
	for name, open := range drivers {
		t.Run(name, func(t *testing.T) {
			r := served(t, open)
			repo := r.Repository("a")
			m := simpleImage(t, repo, "x")
			d := put(t, repo, tagged("v1"), m).Descriptor.Digest
			revision, link := layout.RevisionLink("a", d), layout.LayerLink("a", m.Layers[0].Digest)
			for _, tell := range []struct {
				path string
				tell func() error
			}{
				{link, func() error { _, err := repo.StatBlob(t.Context(), m.Layers[0].Digest); return err }},
				{link, func() error {
					_, err := r.Repository("b").MountBlob(t.Context(), m.Layers[0].Digest, "a", nil)
					return err
				}},
				{revision, func() error { _, err := repo.Manifest(t.Context(), oci.Reference{Digest: d}); return err }},
			} {
				check(t, r.driver.Touch(t.Context(), tell.path, time.Now().Add(-48*time.Hour)))
				check(t, tell.tell())
				if !promised(t, r, tell.path) {
					t.Errorf("%s was told of and is old", tell.path)
				}
			}
			// Reading promises nothing.
			check(t, r.driver.Touch(t.Context(), link, time.Now().Add(-48*time.Hour)))
			readBlob(t, repo, m.Layers[0].Digest)
			if promised(t, r, link) {
				t.Error("reading a blob makes a promise")
			}
		})
	}
}

func TestPromisesAreUsedUp(t *testing.T) {
	tests := []struct {
		name   string
		before func(t *testing.T, r *Registry, repo Repository, m image) // the manifest is deleted
		want   bool                                                      // the layer is promised still
	}{
		{"one push", func(*testing.T, *Registry, Repository, image) {}, false},
		{"somebody else was told", func(t *testing.T, _ *Registry, repo Repository, m image) {
			_, err := repo.StatBlob(t.Context(), m.Layers[0].Digest)
			check(t, err)
		}, true},
		{"somebody else uploaded it", func(t *testing.T, _ *Registry, repo Repository, _ image) {
			pushBlob(t, repo, "layer x")
		}, true},
		{"somebody else mounted it", func(t *testing.T, r *Registry, _ Repository, m image) {
			_, err := r.Repository("b").MountBlob(t.Context(), m.Layers[0].Digest, "a", nil)
			check(t, err)
		}, true},
		{"another server came", func(t *testing.T, r *Registry, _ Repository, _ image) {
			leave, err := r.driver.Serve(t.Context())
			check(t, err)
			t.Cleanup(leave)
		}, true},
		{"another server was there", func(t *testing.T, r *Registry, _ Repository, _ image) {
			leave, err := r.driver.Serve(t.Context())
			check(t, err)
			leave()
		}, true},
	}
	for name, open := range drivers {
		for _, tt := range tests {
			t.Run(name+" "+tt.name, func(t *testing.T) {
				r := served(t, open)
				repo := r.Repository("a")
				m := simpleImage(t, repo, "x")
				d := put(t, repo, tagged("v1"), m).Descriptor.Digest
				tt.before(t, r, repo, m)
				_, err := repo.DeleteManifest(t.Context(), d)
				check(t, err)
				link := layout.LayerLink("a", m.Layers[0].Digest)
				if got := promised(t, r, link); got != tt.want {
					t.Errorf("promised = %v, want %v", got, tt.want)
				}
				// Told after that, it is promised in any case.
				_, err = repo.StatBlob(t.Context(), m.Layers[0].Digest)
				check(t, err)
				if !promised(t, r, link) {
					t.Error("told after the deletion, and not promised")
				}
			})
		}
	}
}

// A client that looks at what it uploads does not keep it by that.
func TestOwnLookIsNoPromise(t *testing.T) {
	r := served(t, drivers["memory"])
	repo := r.Repository("a")
	m := simpleImage(t, repo, "x")
	u, err := repo.StartUpload(t.Context(), "")
	check(t, err)
	content := "looked at"
	_, err = u.Append(t.Context(), strings.NewReader(content))
	check(t, err)
	u.WillLook()
	desc, err := u.Commit(t.Context(), sum(content))
	check(t, err)
	_, err = repo.StatBlob(t.Context(), desc.Digest)
	check(t, err)
	desc.MediaType = m.Layers[0].MediaType
	m.Layers = append(m.Layers, desc)
	d := put(t, repo, tagged("v1"), m).Descriptor.Digest
	pushImage(t, repo, "v1", "y") // the tag goes elsewhere
	for _, path := range []string{layout.LayerLink("a", desc.Digest), layout.RevisionLink("a", d)} {
		if promised(t, r, path) {
			t.Errorf("%s is promised though its tag is gone", path)
		}
	}
}
