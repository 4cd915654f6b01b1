package filesystem

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/driver"
)

// scenarios run in a process of their own, see strace.
var scenarios = map[string]func(d *Driver) error{
	"one":              func(d *Driver) error { return commitMarked(d, "a") },
	"big":              uploadBig,
	"many":             commitMany,
	"flush fails":      all(commitFails(driver.ErrUnavailable, true), checkFails(driver.ErrUnavailable)),
	"write-back fails": commitTwoFails,
	"results fail":     manyFail,
	"dirs fail":        commitDirsFail,
	"disk full":        all(commitFails(driver.ErrNoSpace, false), checkFails(driver.ErrNoSpace)),
	"read-only":        all(commitFails(driver.ErrReadOnly, false), checkFails(driver.ErrReadOnly)),
}

// TestScenario is the other process.
func TestScenario(t *testing.T) {
	scenario := scenarios[os.Getenv("SCENARIO")]
	if scenario == nil {
		return // the usual run of the tests
	}
	d := openRoot(t, os.Getenv("SCENARIO_ROOT"))
	if err := scenario(d); err != nil {
		// Not through write(2), which some tests have fail.
		unix.Writev(2, [][]byte{[]byte(err.Error() + "\n")})
		os.Exit(1)
	}
	d.Close()
	os.Exit(0)
}

// commitMarked pushes a layer and a link in a second stage, with marks around
// for the reader of the trace.
func commitMarked(d *Driver, name string) error {
	ctx := context.Background()
	u, err := d.CreateUpload(ctx, "/"+name+"/_uploads/1/data")
	if err != nil {
		return err
	}
	if err := d.WriteScratch(ctx, "/"+name+"/_uploads/1/startedat", []byte("now")); err != nil {
		return err
	}
	if _, err := io.WriteString(u, strings.Repeat("x", 3000)); err != nil {
		return err
	}
	paths := []string{"/blobs/" + name + "/data", "/" + name + "/t/first/link", "/" + name + "/t/second/link"}
	setMarks("begin", paths)
	err = d.Commit(ctx,
		driver.Stage{{Path: paths[0], Upload: u}, {Path: paths[1], Content: []byte("rev")}},
		driver.Stage{{Path: paths[2], Content: []byte("tag")}})
	if err != nil {
		return err
	}
	setMarks("end", paths)
	if err := d.Discard(ctx, "/"+name+"/_uploads/1"); err != nil {
		return err
	}
	mounted := []string{"/" + name + "/mounted/link"}
	err = d.Commit(ctx, driver.Stage{{Path: mounted[0], Content: []byte("rev"), Like: paths[1]}})
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

// commitMany is many commits at once, twice, so that spares are used.
func commitMany(d *Driver) error {
	var wait sync.WaitGroup
	errs := make([]error, 12)
	for i := range errs {
		wait.Go(func() {
			for j := range 2 {
				errs[i] = errors.Join(errs[i], commitMarked(d, fmt.Sprintf("r%d-%d", i, j)))
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// manyFail is commits at once that are told of a failure, and others later that
// succeed.
func manyFail(d *Driver) error {
	if err := commitMany(d); !errors.Is(err, driver.ErrUnavailable) {
		return fmt.Errorf("commits: %w, want ErrUnavailable", err)
	}
	return commitMarked(d, "later")
}

// commitFails expects each write to fail for the reason, and nothing visible.
// lost says that the upload is gone, too.
func commitFails(reason error, lost bool) func(d *Driver) error {
	return func(d *Driver) error {
		ctx := context.Background()
		err := d.Commit(ctx, driver.Stage{{Path: "/a/link", Content: []byte("x")}})
		if !errors.Is(err, reason) {
			return fmt.Errorf("Commit of a link: %w, want %w", err, reason)
		}
		if strings.Contains(err.Error(), d.root) {
			return fmt.Errorf("the error names the root: %w", err)
		}
		u, err := d.CreateUpload(ctx, "/a/_uploads/1/data")
		if err == nil {
			if _, err = io.WriteString(u, "hello"); err == nil {
				err = d.Commit(ctx, driver.Stage{{Path: "/a/data", Upload: u}, {Path: "/a/b/link", Content: []byte("x")}})
			}
		}
		if !errors.Is(err, reason) {
			return fmt.Errorf("Commit of an upload: %w, want %w", err, reason)
		}
		if _, err := d.OpenUpload(ctx, "/a/_uploads/1/data"); lost && !errors.Is(err, driver.ErrNotExist) {
			return fmt.Errorf("bytes whose flush failed can be taken up again: %w", err)
		}
		for _, path := range []string{"/a/link", "/a/data", "/a/b/link"} {
			if _, err := d.Stat(ctx, path); !errors.Is(err, driver.ErrNotExist) {
				return fmt.Errorf("%s is visible: %w", path, err)
			}
		}
		return nil
	}
}

// commitTwoFails has the write-back of files fail, which is begun where several
// are flushed.
func commitTwoFails(d *Driver) error {
	ctx := context.Background()
	err := d.Commit(ctx, driver.Stage{{Path: "/a/link", Content: []byte("x")}, {Path: "/b/link", Content: []byte("y")}})
	if !errors.Is(err, driver.ErrUnavailable) {
		return fmt.Errorf("Commit: %w, want ErrUnavailable", err)
	}
	for _, path := range []string{"/a/link", "/b/link"} {
		if _, err := d.Stat(ctx, path); !errors.Is(err, driver.ErrNotExist) {
			return fmt.Errorf("%s is visible: %w", path, err)
		}
	}
	return nil
}

// checkFails expects that writing fails for the reason, and reading does not.
func checkFails(reason error) func(d *Driver) error {
	return func(d *Driver) error {
		if err := d.Check(context.Background(), true); !errors.Is(err, reason) {
			return fmt.Errorf("Check: %w, want %w", err, reason)
		}
		return d.Check(context.Background(), false)
	}
}

// bigSize is the size of the upload in the scenario "big".
const bigSize = 8*window + 1

func uploadBig(d *Driver) error {
	u, err := d.CreateUpload(context.Background(), "/_uploads/1/data")
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
	return d.Commit(context.Background(), driver.Stage{{Path: "/data", Upload: u}})
}

func all(scenarios ...func(*Driver) error) func(d *Driver) error {
	return func(d *Driver) error {
		for _, scenario := range scenarios {
			if err := scenario(d); err != nil {
				return err
			}
		}
		return nil
	}
}

// commitDirsFail has the flush of directories fail.
func commitDirsFail(d *Driver) error {
	ctx := context.Background()
	err := d.Commit(ctx,
		driver.Stage{{Path: "/a/first", Content: []byte("x")}},
		driver.Stage{{Path: "/a/second", Content: []byte("x")}})
	if !errors.Is(err, driver.ErrUnavailable) {
		return fmt.Errorf("Commit: %w, want ErrUnavailable", err)
	}
	if _, err := d.Stat(ctx, "/a/second"); !errors.Is(err, driver.ErrNotExist) {
		return fmt.Errorf("the second stage is visible: %w", err)
	}
	return nil
}

func TestFaultsOfTheKernel(t *testing.T) {
	tests := []struct{ scenario, call, errno string }{
		{"flush fails", "fdatasync", "EIO"},
		{"write-back fails", "sync_file_range", "EIO"},
		{"dirs fail", "fsync", "EIO"},
		{"results fail", "io_getevents", "EPERM"},
		{"disk full", "write", "ENOSPC"},
		{"disk full", "write", "EDQUOT"},
		{"disk full", "fdatasync", "ENOSPC"},
		{"read-only", "write", "EROFS"},
	}
	for _, tt := range tests {
		t.Run(tt.call+" "+tt.errno, func(t *testing.T) {
			strace(t, tt.scenario, t.TempDir(), "-e", "trace="+tt.call, "-e", "inject="+tt.call+":error="+tt.errno)
		})
	}
}
