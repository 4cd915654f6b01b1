// Package drivertest holds each driver to the contract of package driver.
package drivertest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	"slipway/registry/internal/driver"
)

// Run runs the suite. Each test gets a driver of its own, empty and open; Run
// closes it.
func Run(t *testing.T, open func(t *testing.T) driver.Driver) {
	tests := []struct {
		name string
		test func(*testing.T, driver.Driver)
	}{
		{"Name", testName},
		{"Check", testCheck},
		{"InvalidPaths", testInvalidPaths},
		{"Stat", testStat},
		{"Find", testFind},
		{"ReadFile", testReadFile},
		{"Open", testOpen},
		{"OpenFileOutlivesItsPath", testOpenFileOutlivesItsPath},
		{"List", testList},
		{"ListAfter", testListAfter},
		{"ListErrors", testListErrors},
		{"Version", testVersion},
		{"CommitReplaces", testCommitReplaces},
		{"CommitStages", testCommitStages},
		{"CommitRemoves", testCommitRemoves},
		{"CommitCopiesContent", testCommitCopiesContent},
		{"StagesAppearInOrder", testStagesAppearInOrder},
		{"ChangesAreWhole", testChangesAreWhole},
		{"CommitsAtOnce", testCommitsAtOnce},
		{"CommitWhileRemoving", testCommitWhileRemoving},
		{"Remove", testRemove},
		{"Scratch", testScratch},
		{"Discard", testDiscard},
		{"Upload", testUpload},
		{"UploadInSessions", testUploadInSessions},
		{"UploadReplaces", testUploadReplaces},
		{"UploadOfManySizes", testUploadOfManySizes},
		{"UploadCancelled", testUploadCancelled},
		{"UploadClosed", testUploadClosed},
		{"UploadMissing", testUploadMissing},
		{"UploadTwiceCreated", testUploadTwiceCreated},
		{"UploadTaken", testUploadTaken},
		{"UploadTakenWhileWriting", testUploadTakenWhileWriting},
		{"UploadOpenedWhileCommitted", testUploadOpenedWhileCommitted},
		{"UploadDiscarded", testUploadDiscarded},
		{"FailedCommitClosesUpload", testFailedCommitClosesUpload},
		{"Touch", testTouch},
		{"SetAside", testSetAside},
		{"SetAsideOverwritesNothing", testSetAsideOverwritesNothing},
		{"RestoreOrRemove", testRestoreOrRemove},
		{"Prune", testPrune},
		{"PruneWhileWriting", testPruneWhileWriting},
		{"Barrier", testBarrier},
		{"BarrierGivesUp", testBarrierGivesUp},
		{"BarrierIsNotStarved", testBarrierIsNotStarved},
		{"Lock", testLock},
		{"Servers", testServers},
		{"Alone", testAlone},
		{"Busy", testBusy},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := open(t)
			defer func() {
				if err := d.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			}()
			tt.test(t, d)
		})
	}
}

// The helpers below end the test on an error.

func put(t *testing.T, d driver.Driver, path, content string) {
	t.Helper()
	commit(t, d, driver.Stage{{Path: path, Content: []byte(content)}})
}

func commit(t *testing.T, d driver.Driver, stages ...driver.Stage) {
	t.Helper()
	if err := d.Commit(t.Context(), stages...); err != nil {
		t.Fatalf("Commit: %v", err)
	}
}

// repeat calls f again and again, beside the test, until stop. It does not end
// the test on an error.
func repeat(t *testing.T, f func(i int) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			if err := f(i); err != nil {
				t.Error(err)
				return
			}
		}
	})
	return func() { cancel(); running.Wait() }
}

func create(t *testing.T, d driver.Driver, path string) driver.Upload {
	t.Helper()
	u, err := d.CreateUpload(t.Context(), path)
	if err != nil {
		t.Fatalf("CreateUpload(%s): %v", path, err)
	}
	return u
}

func reopen(t *testing.T, d driver.Driver, path string) driver.Upload {
	t.Helper()
	u, err := d.OpenUpload(t.Context(), path)
	if err != nil {
		t.Fatalf("OpenUpload(%s): %v", path, err)
	}
	return u
}

func closeUpload(t *testing.T, u driver.Upload) {
	t.Helper()
	if err := u.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func write(t *testing.T, u driver.Upload, content string) {
	t.Helper()
	if n, err := io.WriteString(u, content); err != nil || n != len(content) {
		t.Fatalf("Write = %d, %v; want %d", n, err, len(content))
	}
}

// wantContent checks an object through Stat, ReadFile and Open.
func wantContent(t *testing.T, d driver.Driver, path, want string) {
	t.Helper()
	info, err := d.Stat(t.Context(), path)
	if err != nil || info.Dir || info.Size != int64(len(want)) {
		t.Errorf("Stat(%s) = %+v, %v; want an object of %d bytes", path, info, err, len(want))
	}
	if got, err := d.ReadFile(t.Context(), path, int64(len(want))); err != nil || string(got) != want {
		t.Errorf("ReadFile(%s) = %.40q (%d bytes), %v; want %.40q (%d bytes)", path, got, len(got), err, want, len(want))
	}
	f, err := d.Open(t.Context(), path)
	if err != nil {
		t.Errorf("Open(%s): %v", path, err)
		return
	}
	defer f.Close()
	got, err := io.ReadAll(f)
	if err != nil || !bytes.Equal(got, []byte(want)) || f.Size() != int64(len(want)) {
		t.Errorf("Open(%s) has %.40q (%d bytes, Size %d), %v; want %.40q (%d bytes)", path, got, len(got), f.Size(), err, want, len(want))
	}
}

// wantAbsent checks that nothing shows an object at path.
func wantAbsent(t *testing.T, d driver.Driver, path string) {
	t.Helper()
	if info, err := d.Stat(t.Context(), path); err == nil && !info.Dir || err != nil && !errors.Is(err, driver.ErrNotExist) {
		t.Errorf("Stat(%s) = %+v, %v; want ErrNotExist", path, info, err)
	}
	_, err := d.ReadFile(t.Context(), path, 1<<20)
	wantError(t, "ReadFile("+path+")", err, driver.ErrNotExist)
	f, err := d.Open(t.Context(), path)
	wantError(t, "Open("+path+")", err, driver.ErrNotExist)
	if err == nil {
		f.Close()
	}
}

func wantError(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error is %v, want %v", what, err, want)
	}
}

// names lists dir, and checks order on the way.
func names(t *testing.T, d driver.Driver, dir, after string) (names []string) {
	t.Helper()
	for e, err := range d.List(t.Context(), dir, after) {
		if err != nil {
			t.Fatalf("List(%s, %q): %v", dir, after, err)
		}
		if n := len(names); n > 0 && names[n-1] >= e.Name {
			t.Errorf("List(%s, %q) has %q after %q", dir, after, e.Name, names[n-1])
		}
		names = append(names, e.Name)
	}
	return names
}
