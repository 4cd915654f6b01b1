// Package takeover puts a volume right that a registry of the version before the
// second edition of the storage has left. That one moved objects while it
// collected garbage, deleted tags and verified; one that was killed left some where
// nobody looks any more.
package takeover

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// Where that version kept what it had moved, below the root.
const (
	setAside   = "/_aside"                       // by the collection of garbage
	expiring   = layout.Own + "/expiring"        // links of tags, by retention and deletion
	checking   = layout.Own + "/verify/checking" // by the verification
	deleting   = layout.Own + "/deleting"        // notes of manifests that were being deleted
	reserve    = "/.locks/reserve"               // directories for a full volume
	quarantine = layout.Quarantine + "/takeover" // what was being verified and has a successor in its place
)

// Report is what was found.
type Report struct {
	Restored  int // objects that are in their places again
	Deletions int // of manifests, finished
}

// Pending says whether there is anything to do.
func Pending(root string) bool { return Moved(root) || exists(root+reserve) }

// Moved says whether there are objects that nobody finds before Run has restored them,
// or deletions to finish.
func Moved(root string) bool {
	return exists(root+setAside) || exists(root+expiring) || exists(root+checking) || exists(root+deleting)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Run restores what was moved, finishes deletions of manifests, and removes the
// directories. s is the store on root. The caller has made sure that no registry of
// that version runs; others of this one may. Interrupted, it can be repeated.
func Run(ctx context.Context, root string, s storage.Store) (Report, error) {
	v := &volume{root: root, store: s, hardLink: os.Link}
	for _, step := range []func(context.Context) error{v.restoreTags, v.restoreGarbage, v.restoreChecked, v.finishDeletions, v.tidy} {
		if err := step(ctx); err != nil {
			return v.report, fmt.Errorf("take over the volume of an older version: %w", err)
		}
	}
	return v.report, nil
}

type volume struct {
	root   string
	store  storage.Store
	report Report

	hardLink func(file, name string) error // os.Link
}

// restoreTags restores links of tags that were about to be deleted.
func (v *volume) restoreTags(ctx context.Context) error {
	return v.restore(ctx, expiring, func(rest string) (string, bool) {
		name, tag, ok := strings.Cut(strings.TrimPrefix(rest, "/"), "/_tags/")
		if inner, quoted := strings.CutPrefix(tag, "-"); quoted { // a name that ends in .tmp
			tag = strings.TrimSuffix(inner, "-")
		}
		_, err := oci.ParseTag(tag)
		return layout.TagCurrent(oci.Name(name), oci.Tag(tag)), ok && err == nil
	}, "")
}

// restoreGarbage restores what a collection took for garbage. The next one takes
// what still is.
func (v *volume) restoreGarbage(ctx context.Context) error {
	return v.restore(ctx, setAside, func(rest string) (string, bool) {
		for _, object := range []string{"link", "data"} {
			if dir, ok := strings.CutSuffix(rest, "."+object); ok {
				return dir + "/" + object, true
			}
		}
		return "", false
	}, "")
}

// restoreChecked restores what a verification was about to quarantine.
func (v *volume) restoreChecked(ctx context.Context) error {
	return v.restore(ctx, checking, func(rest string) (string, bool) { return rest, true }, quarantine)
}

// restore gives each file below dir the place that place says. One that has a successor
// there goes below otherwise, or is deleted if that is "". What has no place stays.
func (v *volume) restore(ctx context.Context, dir string, place func(rest string) (string, bool), otherwise string) error {
	var moved, places []string
	err := filepath.WalkDir(v.root+dir, func(file string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		key, ok := place(strings.TrimPrefix(file, v.root+dir))
		if !ok || !storage.ValidKey(key) {
			return nil
		}
		err = v.link(file, key)
		if errors.Is(err, fs.ErrExist) && otherwise != "" {
			key = otherwise + key
			err = v.link(file, key)
		}
		if errors.Is(err, fs.ErrNotExist) && !exists(file) {
			return nil // another process has restored it
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		moved, places = append(moved, file), append(places, filepath.Dir(v.root+key))
		return nil
	})
	if err != nil {
		return err
	}
	if err := flush(v.root, places); err != nil {
		return err
	}
	for _, file := range moved {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	v.report.Restored += len(moved)
	return nil
}

// link gives a file a second name, unless there is something. So it is in one of the
// two places at any time, with its age. Where files have one name only it is moved.
func (v *volume) link(file, key string) error {
	if err := v.makeDirectory(filepath.Dir(key)); err != nil {
		return err
	}
	err := v.hardLink(file, v.root+key)
	if err == nil || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if exists(v.root + key) {
		return fs.ErrExist
	}
	return os.Rename(file, v.root+key)
}

// makeDirectory makes a directory and those above it. As root, it gives them the
// owner of the volume.
func (v *volume) makeDirectory(dir string) error {
	err := os.Mkdir(v.root+dir, 0o755)
	if errors.Is(err, fs.ErrNotExist) && dir != "/" {
		if err := v.makeDirectory(filepath.Dir(dir)); err != nil {
			return err
		}
		err = os.Mkdir(v.root+dir, 0o755)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil && os.Geteuid() == 0 {
		err = chownLike(v.root, v.root+dir)
	}
	return err
}

// flush makes the names in directories durable, and those of the directories up to
// root, above which nothing was made and this process may not be allowed to look.
func flush(root string, dirs []string) error {
	done := map[string]bool{filepath.Dir(root): true}
	for _, dir := range dirs {
		for ; !done[dir]; dir = filepath.Dir(dir) {
			done[dir] = true
			f, err := os.Open(dir)
			if errors.Is(err, fs.ErrNotExist) {
				continue // what was in it is deleted again
			}
			if err == nil {
				err = errors.Join(f.Sync(), f.Close())
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// tidy removes what is empty by now.
func (v *volume) tidy(context.Context) error {
	for _, dir := range []string{setAside, expiring, checking, deleting, reserve} {
		removeEmpty(v.root + dir)
	}
	_ = os.Remove(v.root + filepath.Dir(checking)) // where the verification is not under way
	return nil
}

// removeEmpty removes dir with all directories below it in which there is no file.
func removeEmpty(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			removeEmpty(dir + "/" + e.Name())
		}
	}
	_ = os.Remove(dir)
}
