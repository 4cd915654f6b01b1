package registry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/shared/programtest"
)

// What strangers put into the tree neither shows nor disturbs.
func TestStrayDirectories(t *testing.T) {
	root := t.TempDir()
	ctx, r := context.Background(), newRegistry(openFiles(t, root), Options{DeleteEnabled: true})
	repo := r.Repository("a")
	digest := pushImage(t, repo, "t", "x")
	for _, dir := range []string{"lost+found", ".snapshot/x", "UPPER/b", "a/_private/x", "a/_uploads/.nfs+1", "a/_manifests/tags/.x", "a/_manifests/tags/a+b", "a/_manifests/revisions/sha256/+"} {
		check(t, os.MkdirAll(filepath.Join(root, layout.Repositories, dir), 0o755))
	}
	check(t, os.WriteFile(filepath.Join(root, layout.Repositories, "README+"), nil, 0o644))
	names, more, err := r.Catalog(ctx, 10, "", nil)
	check(t, err)
	if !slices.Equal(names, []string{"a"}) || more {
		t.Errorf("the catalog is %q", names)
	}
	tags, _, err := repo.Tags(ctx, -1, "")
	check(t, err)
	if !slices.Equal(tags, []string{"t"}) {
		t.Errorf("the tags are %q", tags)
	}
	if got := listReferrers(t, repo, digest, ""); len(got) != 0 {
		t.Errorf("the referrers are %v", got)
	}
	report, err := r.PurgeUploads(ctx, PurgeOptions{})
	check(t, err)
	if report.Errors != 0 {
		t.Errorf("the purge reports %+v", report)
	}
	_, err = repo.DeleteManifest(ctx, digest)
	check(t, err)
}

// Where distribution has begun an upload that was finished here, directories may be left, or states of its hash.
func TestPurge_RestsOfDistribution_Go(t *testing.T) {
	root := t.TempDir()
	r := newRegistry(openFiles(t, root), Options{})
	pushImage(t, r.Repository("a"), "t", "x")
	dirs := filepath.Join(root, layout.Upload("a", layout.NewUploadID()))
	check(t, os.MkdirAll(dirs+"/hashstates/sha256", 0o755))
	states := filepath.Join(root, layout.Upload("a", layout.NewUploadID()))
	check(t, os.MkdirAll(states+"/hashstates/sha256", 0o755))
	check(t, os.WriteFile(states+"/hashstates/sha256/0", []byte("sha\x03"), 0o600))
	for u := range r.Uploads(t.Context()) {
		t.Errorf("%+v is listed", u)
	}
	report, err := r.PurgeUploads(t.Context(), PurgeOptions{Age: time.Hour})
	check(t, err)
	for _, dir := range []string{dirs, states} {
		if _, err := os.Stat(dir); !os.IsNotExist(err) || len(report.Purged) > 0 {
			t.Errorf("the purge reports %+v, and the directory: %v", report, err)
		}
	}
}

// The next reader sees a moved tag, however it was moved.
func TestMovedTagIsSeenAtOnce(t *testing.T) {
	root := t.TempDir()
	d := openFiles(t, root)
	ctx, r, foreign := context.Background(), newRegistry(d, Options{}), newRegistry(d, Options{})
	repo := r.Repository("a")
	images := []image{simpleImage(t, repo, "x"), simpleImage(t, repo, "y")}
	for _, m := range images {
		put(t, repo, oci.Reference{Digest: oci.SHA256.FromBytes(m.bytes())}, m)
	}
	link := filepath.Join(root, layout.TagCurrent("a", "t"))
	moves := map[string]func(m image){
		"us":               func(m image) { put(t, repo, tagged("t"), m) },
		"another process":  func(m image) { put(t, foreign.Repository("a"), tagged("t"), m) },
		"distribution 2.8": func(m image) { check(t, os.WriteFile(link, layout.Link(oci.SHA256.FromBytes(m.bytes())), 0o644)) },
	}
	put(t, repo, tagged("t"), images[0])
	for i := range 12 {
		if i%3 == 0 {
			time.Sleep(30 * time.Millisecond) // until a tag may be remembered
		}
		for who, move := range moves {
			m := images[i%2]
			move(m)
			for range 3 {
				got, err := repo.Manifest(ctx, tagged("t"))
				check(t, err)
				if want := oci.SHA256.FromBytes(m.bytes()); got.Digest != want {
					t.Fatalf("moved by %s to %s, but it is read as %s", who, want, got.Digest)
				}
			}
		}
	}
}

// Uploads that fail on a full disk leave no file open.
func TestFailedUploadsCloseTheirFiles(t *testing.T) {
	root := programtest.Mount(t, "tmpfs", "size=2m")
	repo := newRegistry(openFiles(t, root), Options{}).Repository("a")
	pushBlob(t, repo, "x")
	open := func() (n int) {
		fds, err := os.ReadDir("/proc/self/fd")
		check(t, err)
		for _, fd := range fds {
			if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(to, root) && strings.Contains(to, "_uploads") {
				n++
			}
		}
		return n
	}
	for i := range 10 {
		content := fmt.Sprint(i) + strings.Repeat("x", 3<<20)
		if _, err := tryPushBlob(repo, content, sum(content)); !errors.Is(err, storage.ErrNoSpace) {
			t.Fatalf("upload %d: %v", i, err)
		}
	}
	if n := open(); n > 0 {
		t.Errorf("%d files are open", n)
	}
}
