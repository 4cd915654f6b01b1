package registry

import (
	"context"
	"errors"
	"testing"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

func TestBlobBelongsToItsRepository(t *testing.T) {
	onStores(t, func(t *testing.T, r *Registry) {
		ctx, d := context.Background(), pushBlob(t, r.Repository("mine"), "secret").Digest
		_, err := r.Repository("yours").StatBlob(ctx, d)
		wantCode(t, err, oci.CodeBlobUnknown)
		_, err = r.Repository("yours").OpenBlob(ctx, d)
		wantCode(t, err, oci.CodeBlobUnknown)
		pushBlob(t, r.Repository("yours"), "other")
		_, err = r.Repository("yours").OpenBlob(ctx, d)
		wantCode(t, err, oci.CodeBlobUnknown)
	})
}

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

func TestDamagedBlob(t *testing.T) {
	const content = "the whole content"
	tests := []struct {
		name string
		// learn makes the registry know the size, on a registry that was started again.
		learn   func(t *testing.T, repo Repository)
		damage  string
		damaged bool
	}{
		{"empty", func(*testing.T, Repository) {}, "", true},
		{"truncated, known from its upload", func(t *testing.T, repo Repository) { pushBlob(t, repo, content) }, "the whole", true},
		{"grown, known from its upload", func(t *testing.T, repo Repository) { pushBlob(t, repo, content) }, content + content, true},
		{"truncated, known from its manifest", func(t *testing.T, repo Repository) {
			_, err := repo.Manifest(context.Background(), tagged("t"))
			check(t, err)
		}, "the whole", true},
		{"truncated, nobody knows", func(*testing.T, Repository) {}, "the whole", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			onStores(t, func(t *testing.T, r *Registry) {
				ctx, d := context.Background(), sum(content)
				repo := r.Repository("a")
				layer := pushBlob(t, repo, content)
				config := pushBlob(t, repo, "config")
				put(t, repo, tagged("t"), image{Config: &config, Layers: []oci.Descriptor{layer}})
				repo = again(r, Options{}).Repository("a")
				tt.learn(t, repo)
				overwrite(t, r, d, tt.damage)
				_, err := repo.StatBlob(ctx, d)
				if !tt.damaged {
					check(t, err)
					return
				}
				wantCode(t, err, oci.CodeBlobUnknown)
				_, err = repo.OpenBlob(ctx, d)
				wantCode(t, err, oci.CodeUnknown)
				if !errors.Is(err, ErrDamaged) {
					t.Errorf("got %v, want ErrDamaged", err)
				}
				_, err = repo.MountBlob(ctx, d, "a", nil)
				wantCode(t, err, oci.CodeBlobUnknown)
				pushBlob(t, repo, content)
				if got := readBlob(t, repo, d); got != content {
					t.Errorf("after the repair it reads %q", got)
				}
			})
		})
	}
}

// A manifest of somebody else must not make a good blob look damaged.
func TestLyingManifestTakesNothingAway(t *testing.T) {
	onStores(t, func(t *testing.T, r *Registry) {
		ctx, repo := context.Background(), r.Repository("a")
		layer, config := pushBlob(t, repo, "good content"), pushBlob(t, repo, "config")
		lie := layer
		lie.Size = 1 << 30
		body := image{Config: &config, Layers: []oci.Descriptor{lie}}.bytes()
		_, err := repo.PutManifest(ctx, tagged("t"), oci.MediaTypeManifest, body, nil)
		wantCode(t, err, oci.CodeManifestInvalid)

		// Distribution would have taken it.
		d := oci.SHA256.FromBytes(body)
		check(t, r.store.Apply(ctx, nil, storage.Stage{
			{Key: layout.BlobData(d), Content: body},
			{Key: layout.RevisionLink("a", d), Content: layout.Link(d)},
		}))
		repo = again(r, Options{}).Repository("a")
		_, err = repo.Manifest(ctx, oci.Reference{Digest: d})
		check(t, err)
		_, err = repo.StatBlob(ctx, layer.Digest)
		check(t, err)
		if got := readBlob(t, repo, layer.Digest); got != "good content" {
			t.Errorf("reads %q", got)
		}
	})
}
