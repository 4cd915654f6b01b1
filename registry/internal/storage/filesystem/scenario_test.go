package filesystem

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

// scenarios run in processes of their own, see strace.
var scenarios = map[string]func(s *Store) error{
	"one":              func(s *Store) error { return applyMarked(s, "a") },
	"big":              uploadBig,
	"many":             applyMany,
	"renewed":          renewMarked,
	"flush fails":      all(applyFails(storage.ErrUnavailable, true), checkFails(storage.ErrUnavailable)),
	"write-back fails": uploadFails,
	"dirs fail":        applyDirsFail,
	"dir fails once":   applyDirFailsOnce,
	"disk full":        all(applyFails(storage.ErrNoSpace, false), checkFails(storage.ErrNoSpace)),
	"read-only":        all(applyFails(storage.ErrReadOnly, false), checkFails(storage.ErrReadOnly)),
	"another user":     deniedWithAdvice,
}

// deniedWithAdvice wants an error that names the fix.
func deniedWithAdvice(s *Store) error {
	err := s.Apply(context.Background(), nil, storage.Stage{{Key: "/d/x", Content: []byte("x")}})
	if !errors.Is(err, storage.ErrDenied) || !strings.Contains(err.Error(), "chown -R 1234:5678") || strings.Contains(err.Error(), s.root) {
		return fmt.Errorf("got %w, want advice without the path of the root", err)
	}
	return nil
}

// applyDirFailsOnce needs the flush of a directory for a deletion, and once more for what is
// new below it.
func applyDirFailsOnce(s *Store) error {
	runtime.LockOSThread() // strace counts the calls of each thread
	put := func(key string) storage.Change { return storage.Change{Key: key, Content: []byte("x")} }
	remove := func(key string) storage.Change { return storage.Change{Key: key, Delete: true} }
	if err := s.Apply(context.Background(), nil, storage.Stage{put("/d/e/x"), put("/d/e/y"), put("/d/z")}); err != nil {
		return err
	}
	err := s.Apply(context.Background(), nil, storage.Stage{remove("/d/z"), put("/d/e/new"), remove("/d/e/x")})
	if !errors.Is(err, storage.ErrUnavailable) {
		return fmt.Errorf("Apply: %w, though a directory was not flushed", err)
	}
	return nil
}

// TestScenario is the other process.
func TestScenario(t *testing.T) {
	scenario := scenarios[os.Getenv("SCENARIO")]
	if scenario == nil {
		return // the usual run of the tests
	}
	s := openRoot(t, os.Getenv("SCENARIO_ROOT"))
	d := &staging{dir: s.staging + "/scenario"} // so that tests know the names of files
	d.err = s.makeStaging(d.dir)                // the error of Apply
	s.current.Store(d)
	if err := scenario(s); err != nil {
		// write(2) fails in some tests.
		unix.Writev(2, [][]byte{[]byte(err.Error() + "\n")})
		os.Exit(1)
	}
	s.Close()
	os.Exit(0)
}

// applyMarked pushes a layer and a link in a second stage, with marks around
// for the reader of the trace.
func applyMarked(s *Store, name string) error {
	ctx := context.Background()
	u, err := s.OpenUpload(ctx, "/"+name+"/_uploads/1/data", storage.UploadOptions{Create: true})
	if err != nil {
		return err
	}
	note := storage.Change{Key: "/" + name + "/_uploads/1/startedat", Content: []byte("now"), Ephemeral: true}
	if err := s.Apply(ctx, nil, storage.Stage{note}); err != nil {
		return err
	}
	if _, err := io.WriteString(u, strings.Repeat("x", 3000)); err != nil {
		return err
	}
	paths := []string{"/blobs/" + name + "/data", "/" + name + "/t/first/link", "/" + name + "/t/second/link"}
	setMarks("begin", paths)
	err = s.Apply(ctx, nil,
		storage.Stage{{Key: paths[0], Upload: u}, {Key: paths[1], Content: []byte("rev")}},
		storage.Stage{{Key: paths[2], Content: []byte("tag")}})
	if err != nil {
		return err
	}
	setMarks("end", paths)
	if err := s.Apply(ctx, nil, storage.Stage{{Key: note.Key, Delete: true, Ephemeral: true}}); err != nil {
		return err
	}
	mounted := []string{"/" + name + "/mounted/link"}
	err = s.Apply(ctx, nil, storage.Stage{{Key: mounted[0], Content: []byte("rev")}})
	setMarks("end", mounted)
	return err
}

// setMarks makes a call that the trace shows.
func setMarks(what string, paths []string) {
	var st unix.Stat_t
	for _, p := range paths {
		unix.Stat("/mark/"+what+p, &st) //nolint:errcheck // there is no such file
	}
}

// renewMarked puts an object and renews it.
func renewMarked(s *Store) error {
	ctx, key := context.Background(), "/a/link"
	if err := s.Apply(ctx, nil, storage.Stage{{Key: key, Content: []byte("content")}}); err != nil {
		return err
	}
	before, err := s.Stat(ctx, key)
	if err == nil {
		time.Sleep(2 * fineTick)
		err = s.Apply(ctx, nil, storage.Stage{{Key: key, Renew: true}})
	}
	if err != nil {
		return err
	}
	setMarks("end", []string{key})
	after, err := s.Stat(ctx, key)
	if err != nil || after.Size != before.Size || !after.Modified.After(before.Modified) {
		return fmt.Errorf("%+v was renewed to %+v, %w", before, after, err)
	}
	return nil
}

// applyMany makes many calls at once, twice.
func applyMany(s *Store) error {
	var wait sync.WaitGroup
	errs := make([]error, 12)
	for i := range errs {
		wait.Go(func() {
			for j := range 2 {
				errs[i] = errors.Join(errs[i], applyMarked(s, fmt.Sprintf("r%d-%d", i, j)))
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// applyFails expects each write to fail for the reason, and nothing visible.
// lost says that the upload is gone, too.
func applyFails(reason error, lost bool) func(s *Store) error {
	return func(s *Store) error {
		ctx := context.Background()
		err := s.Apply(ctx, nil, storage.Stage{{Key: "/a/link", Content: []byte("x")}})
		if !errors.Is(err, reason) {
			return fmt.Errorf("Apply of a link: %w, want %w", err, reason)
		}
		if strings.Contains(err.Error(), s.root) {
			return fmt.Errorf("the error names the root: %w", err)
		}
		u, err := s.OpenUpload(ctx, "/a/_uploads/1/data", storage.UploadOptions{Create: true})
		if err == nil {
			if _, err = io.WriteString(u, "hello"); err == nil {
				err = s.Apply(ctx, nil, storage.Stage{{Key: "/a/data", Upload: u}, {Key: "/a/b/link", Content: []byte("x")}})
			}
		}
		if !errors.Is(err, reason) {
			return fmt.Errorf("Apply of an upload: %w, want %w", err, reason)
		}
		if _, err := s.OpenUpload(ctx, "/a/_uploads/1/data", storage.UploadOptions{}); lost && !errors.Is(err, storage.ErrNotExist) {
			return fmt.Errorf("bytes whose flush failed can be taken up again: %w", err)
		}
		for _, path := range []string{"/a/link", "/a/data", "/a/b/link"} {
			if _, err := s.Stat(ctx, path); !errors.Is(err, storage.ErrNotExist) {
				return fmt.Errorf("%s is visible: %w", path, err)
			}
		}
		return nil
	}
}

// uploadFails has the write-back of an upload fail, which no flush reports again.
func uploadFails(s *Store) error {
	if err := uploadBig(s); !errors.Is(err, storage.ErrUnavailable) {
		return fmt.Errorf("upload: %w, want ErrUnavailable", err)
	}
	_, err := s.OpenUpload(context.Background(), "/_uploads/1/data", storage.UploadOptions{})
	if !errors.Is(err, storage.ErrNotExist) {
		return fmt.Errorf("bytes that are in doubt can be resumed: %w", err)
	}
	return nil
}

// checkFails expects that writing fails for the reason, and reading does not.
func checkFails(reason error) func(s *Store) error {
	return func(s *Store) error {
		if err := storage.Check(context.Background(), s, "/a", true); !errors.Is(err, reason) {
			return fmt.Errorf("Check: %w, want %w", err, reason)
		}
		return storage.Check(context.Background(), s, "/a", false)
	}
}

// bigSize is the size of the upload in the scenario "big".
const bigSize = 8*window + 1

func uploadBig(s *Store) error {
	u, err := s.OpenUpload(context.Background(), "/_uploads/1/data", storage.UploadOptions{Create: true})
	if err != nil {
		return err
	}
	for range 8 {
		if _, err := u.Write(make([]byte, window)); err != nil {
			return err
		}
	}
	if _, err := u.Write([]byte("x")); err != nil {
		return err
	}
	return s.Apply(context.Background(), nil, storage.Stage{{Key: "/data", Upload: u}})
}

func all(scenarios ...func(*Store) error) func(s *Store) error {
	return func(s *Store) error {
		for _, scenario := range scenarios {
			if err := scenario(s); err != nil {
				return err
			}
		}
		return nil
	}
}

// applyDirsFail has the flush of directories fail.
func applyDirsFail(s *Store) error {
	ctx := context.Background()
	err := s.Apply(ctx, nil,
		storage.Stage{{Key: "/a/first", Content: []byte("x")}},
		storage.Stage{{Key: "/a/second", Content: []byte("x")}})
	if !errors.Is(err, storage.ErrUnavailable) {
		return fmt.Errorf("Apply: %w, want ErrUnavailable", err)
	}
	if _, err := s.Stat(ctx, "/a/second"); !errors.Is(err, storage.ErrNotExist) {
		return fmt.Errorf("the second stage is visible: %w", err)
	}
	return nil
}

func TestFaultsOfTheKernel(t *testing.T) {
	tests := []struct{ scenario, call, errno string }{
		{"flush fails", "fdatasync", "EIO"},
		{"write-back fails", "sync_file_range", "EIO"},
		{"dirs fail", "fsync", "EIO"},
		{"disk full", "write", "ENOSPC"},
		{"disk full", "write", "EDQUOT"},
		{"disk full", "fdatasync", "ENOSPC"},
		{"read-only", "write", "EROFS"},
	}
	for _, tt := range tests {
		t.Run(tt.call+" "+tt.errno, func(t *testing.T) {
			root := t.TempDir()
			args := []string{"-e", "trace=" + tt.call, "-e", "inject=" + tt.call + ":error=" + tt.errno}
			if tt.call == "write" { // the runtime writes, too, and must not fail
				args = append(args, "-P", root+"/a/_uploads/1/data")
				for i := range 9 {
					args = append(args, "-P", fmt.Sprintf("%s/.staging/scenario/%d", root, i+1))
				}
			}
			strace(t, tt.scenario, root, args...)
		})
	}
}
