package registry

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/shared/programtest"
)

// On a full disk what frees space works, although a deletion can't be recorded: then it can't be undone,
// and the caller learns that.
func TestDelete_FullDisk(t *testing.T) {
	for what, options := range map[string]string{"bytes": "size=4m", "inodes": "nr_inodes=400"} {
		t.Run(what, func(t *testing.T) {
			dir := programtest.Mount(t, "tmpfs", options)
			fill := func() { programtest.FillFiles(t, filepath.Join(dir, "filler")) }
			r := newRegistry(openFiles(t, filepath.Join(dir, "root")), Options{DeleteEnabled: true, KeepDeleted: time.Hour})
			unrecorded := 0
			repo := r.Repository("app").OnUnrecorded(func() { unrecorded++ })
			digests := map[string]oci.Digest{}
			for _, tag := range []string{"tag", "manifest", "retained", "kept", "recorded"} {
				digests[tag] = pushImage(t, repo, tag, tag)
			}
			gone := r.Repository("gone").OnUnrecorded(func() { unrecorded++ })
			digests["gone"] = pushImage(t, gone, "gone", "gone")
			check(t, deleteTag(t.Context(), repo, "recorded"))
			fill()
			if _, err := tryPushBlob(repo, "more", sum("more")); !errors.Is(err, storage.ErrNoSpace) {
				t.Fatalf("a push onto the full disk: %v", err)
			}
			_, err := repo.StatBlob(t.Context(), sum("layer kept"))
			check(t, err)
			_, err = r.PurgeUploads(t.Context(), PurgeOptions{})
			check(t, err)
			noUploads(t, r)
			fill()

			check(t, deleteTag(t.Context(), repo, "tag"))
			fill()
			removed, err := repo.DeleteManifest(t.Context(), digests["manifest"])
			if check(t, err); len(removed) != 1 {
				t.Errorf("with the manifest, the tags %q went", removed)
			}
			fill()
			found, err := r.tags.Find(t.Context(), "app", "retained")
			check(t, err)
			if ok, err := repo.DeleteTagIf(t.Context(), "retained", found.Digest, found.Version); !ok || err != nil {
				t.Errorf("retention: %v, %v", ok, err)
			}
			fill()
			check(t, gone.Delete(t.Context()))
			if unrecorded != 4 {
				t.Errorf("%d of 4 deletions are known to be unrecorded", unrecorded)
			}
			if tags, _, err := repo.Tags(t.Context(), -1, ""); err != nil || len(tags) != 1 || tags[0] != "kept" {
				t.Errorf("the tags are %q, %v", tags, err)
			}
			wantDeletions(t, repo, 1)
			wantDeletions(t, gone, 0)

			fill()
			if report := collectAll(t, r, false); report.Blobs.Freed < 8 {
				t.Errorf("a collection frees %+v", report)
			}
			if _, err := repo.Manifest(t.Context(), oci.Reference{Tag: "kept"}); err != nil {
				t.Error(err)
			}
			_, err = repo.Restore(t.Context(), Selection{Tag: "recorded"})
			check(t, err)
			check(t, os.RemoveAll(filepath.Join(dir, "filler")))
			check(t, deleteTag(t.Context(), repo, "kept"))
			if unrecorded != 4 {
				t.Error("with room again, a deletion isn't recorded")
			}
			wantDeletions(t, repo, 1)
		})
	}
}

// A volume that is read-only by now refuses deletions with a reason.
func TestDelete_RemountedReadOnly(t *testing.T) {
	dir := programtest.Mount(t, "tmpfs", "size=4m")
	s := openFiles(t, dir)
	pushImage(t, newRegistry(s, Options{}).Repository("app"), "v1", "x")
	check(t, s.Close())
	check(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	repo := newRegistry(openFiles(t, dir), Options{DeleteEnabled: true, KeepDeleted: time.Hour}).Repository("app")
	for what, err := range map[string]error{"a tag": deleteTag(t.Context(), repo, "v1"), "the repository": repo.Delete(t.Context())} {
		wantCode(t, err, oci.CodeUnavailable)
		if !errors.Is(err, storage.ErrReadOnly) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := s.Stat(t.Context(), layout.TagCurrent("app", "v1")); err != nil {
		t.Error(err)
	}
}
