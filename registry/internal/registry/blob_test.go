package registry

import (
	"context"
	"errors"
	"testing"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

func TestAliasOfDistributionIsFollowed(t *testing.T) {
	onStores(t, func(t *testing.T, r *Registry) {
		ctx, repo := context.Background(), r.Repository("a")
		d := pushBlob(t, repo, "content").Digest
		alias := oci.SHA512.FromBytes([]byte("content"))
		check(t, r.store.Apply(ctx, nil, storage.Stage{{Key: layout.LayerLink("a", alias), Content: layout.Link(d)}}))
		desc, err := repo.StatBlob(ctx, alias)
		check(t, err)
		if desc.Digest != alias {
			t.Errorf("the alias answers with %s", desc.Digest)
		}
		if got := readBlob(t, repo, alias); got != "content" {
			t.Errorf("the alias reads %q", got)
		}
		_, err = r.Repository("b").MountBlob(ctx, alias, "a", nil)
		check(t, err)
		if got := readBlob(t, r.Repository("b"), alias); got != "content" {
			t.Errorf("the mounted alias reads %q", got)
		}
	})
}

func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		name   string
		opts   Options
		writes bool
	}{
		{"deletion disabled", Options{}, true},
		{"read-only", Options{ReadOnly: true, DeleteEnabled: true}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, repo := context.Background(), newRegistry(stores["memory"](t), tt.opts).Repository("a")
			_, err := repo.DeleteManifest(ctx, sum("x"))
			wantCode(t, err, oci.CodeUnsupported)
			wantCode(t, deleteTag(ctx, repo, "x"), oci.CodeUnsupported)
			wantCode(t, repo.DeleteBlob(ctx, sum("x")), oci.CodeUnsupported)
			if tt.writes {
				pushImage(t, repo, "t", "x")
				return
			}
			_, err = repo.StartUpload(ctx, "")
			wantCode(t, err, oci.CodeUnsupported)
			_, err = repo.ResumeUpload(ctx, layout.NewUploadID(), UploadPoint{})
			wantCode(t, err, oci.CodeUnsupported)
			_, err = repo.MountBlob(ctx, sum("x"), "b", nil)
			wantCode(t, err, oci.CodeUnsupported)
			_, err = repo.PutManifest(ctx, tagged("t"), "", []byte("{}"), nil)
			wantCode(t, err, oci.CodeUnsupported)
		})
	}
}

// overwrite puts other bytes where those of the digest should be.
func overwrite(t *testing.T, r *Registry, d oci.Digest, content string) {
	t.Helper()
	check(t, r.store.Apply(context.Background(), nil, storage.Stage{{Key: layout.BlobData(d), Content: []byte(content)}}))
}

// An empty blob is unknown to clients, which push it again. Of a blob that has lost or gained bytes only its manifest
// knows: a push of that makes the blob unknown.
func TestDamagedBlob(t *testing.T) {
	const content = "the whole content"
	for _, tt := range []struct{ name, damage string }{{"empty", ""}, {"truncated", "the whole"}, {"grown", content + content}} {
		t.Run(tt.name, func(t *testing.T) {
			onStores(t, func(t *testing.T, r *Registry) {
				ctx, d := context.Background(), sum(content)
				repo := r.Repository("a")
				layer := pushBlob(t, repo, content)
				config := pushBlob(t, repo, "config")
				m := image{Config: &config, Layers: []oci.Descriptor{layer}}
				overwrite(t, r, d, tt.damage)
				repo = again(r, Options{}).Repository("a")
				_, err := repo.PutManifest(ctx, tagged("t"), "", m.bytes(), nil)
				wantCode(t, err, oci.CodeManifestBlobUnknown)
				_, err = repo.StatBlob(ctx, d)
				wantCode(t, err, oci.CodeBlobUnknown)
				if tt.damage == "" {
					_, err = repo.OpenBlob(ctx, d)
					wantCode(t, err, oci.CodeUnknown)
					if !errors.Is(err, ErrDamaged) {
						t.Errorf("got %v, want ErrDamaged", err)
					}
					_, err = repo.MountBlob(ctx, d, "a", nil)
					wantCode(t, err, oci.CodeBlobUnknown)
				}
				pushBlob(t, repo, content)
				_, err = repo.StatBlob(ctx, d)
				check(t, err)
				put(t, repo, tagged("t"), m)
				if got := readBlob(t, repo, d); got != content {
					t.Errorf("after the repair it reads %q", got)
				}
			})
		})
	}
}

// A manifest with a wrong size takes a good blob away from nobody: other repositories have it, clients of
// this one can read it, and a push of it ends the doubt, or a few minutes.
func TestLyingManifestTakesNothingAway(t *testing.T) {
	onStores(t, func(t *testing.T, r *Registry) {
		var later time.Duration
		r.now = func() time.Time { return time.Now().Add(later) }
		ctx, repo, other := context.Background(), r.Repository("a"), r.Repository("b")
		layer, config := pushBlob(t, repo, "good content"), pushBlob(t, repo, "config")
		pushBlob(t, other, "good content")
		lie := layer
		lie.Size = 1 << 30
		lies := func() {
			t.Helper()
			_, err := repo.PutManifest(ctx, tagged("t"), oci.MediaTypeManifest, image{Config: &config, Layers: []oci.Descriptor{lie}}.bytes(), nil)
			wantCode(t, err, oci.CodeManifestBlobUnknown)
			_, err = repo.StatBlob(ctx, layer.Digest)
			wantCode(t, err, oci.CodeBlobUnknown)
		}
		lies()
		if got := readBlob(t, repo, layer.Digest); got != "good content" {
			t.Errorf("reads %q", got)
		}
		_, err := other.StatBlob(ctx, layer.Digest)
		check(t, err)
		pushBlob(t, repo, "good content")
		_, err = repo.StatBlob(ctx, layer.Digest)
		check(t, err)
		lies()
		later = doubt
		_, err = repo.StatBlob(ctx, layer.Digest)
		check(t, err)
	})
}
