// Package storagetest holds each store to the contract of package storage.
package storagetest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/registry/internal/storage"
)

var background = context.Background()

// patience is the longest time that the suite waits for an event.
const patience = 20 * time.Second

type test struct {
	name string
	test func(*testing.T, pair)
}

// Scale bounds how much the suite does. The zero value suits stores whose operations take microseconds.
type Scale struct {
	// Page bounds the objects of a page of a listing, and those that one request deletes; 0 = 1,000. The suite makes some more.
	Page int
	// Rounds is the number of times that a test looks for a race; 0 = 200.
	Rounds int
}

// Emulated is the scale for servers that take milliseconds for a request: an order of writes that is wrong shows within few reads.
var Emulated = Scale{Page: 50, Rounds: 40}

// Run runs the suite. Each test calls open for the views that two processes have of one
// storage, empty and open; they may be the same. Run closes the stores.
//
// Tests of collections run in parallel, because Collect may wait for minutes.
func Run(t *testing.T, o Scale, open func(t *testing.T) (a, b storage.Store)) {
	run(t, o, open, func(t *testing.T, f func(*testing.T)) { f(t) })
}

// RunBubbled is Run for stores whose only clock is this process's: there the tests of
// collections take no time, because they run in bubbles of testing/synctest.
func RunBubbled(t *testing.T, open func(t *testing.T) (a, b storage.Store)) {
	run(t, Scale{}, open, synctest.Test)
}

func run(t *testing.T, o Scale, open func(t *testing.T) (a, b storage.Store), bubble func(*testing.T, func(*testing.T))) {
	o.Page, o.Rounds = cmp.Or(o.Page, 1000), cmp.Or(o.Rounds, 200)
	tests := []test{
		{"Check", testCheck},
		{"InvalidKeys", testInvalidKeys},
		{"InvalidChanges", testInvalidChanges},
		{"Stat", testStat},
		{"Modified", testModified},
		{"Read", testRead},
		{"OpenRange", testOpenRange},
		{"OpenObjectOutlivesItsKey", testOpenObjectOutlivesItsKey},

		{"List", testList},
		{"ListDescribesObjects", testListDescribesObjects},
		{"ListAfter", testListAfter},
		{"ListMany", testListMany},
		{"ListNothing", testListNothing},
		{"PrefixVersion", testPrefixVersion},

		{"PutReplaces", testPutReplaces},
		{"PutCopiesContent", testPutCopiesContent},
		{"Delete", testDelete},
		{"Renew", testRenew},
		{"Ephemeral", testEphemeral},
		{"Stages", testStages},
		{"StagesAppearInOrder", testStagesAppearInOrder},
		{"FirstOfStageAppearsFirst", testFirstOfStageAppearsFirst},
		{"ChangesAreWhole", testChangesAreWhole},
		{"ApplyAtOnce", testApplyAtOnce},
		{"ApplyWhileDeleting", testApplyWhileDeleting},

		{"Version", testVersion},
		{"IfAbsent", testIfAbsent},
		{"IfVersion", testIfVersion},
		{"DeleteIfVersion", testDeleteIfVersion},
		{"ConflictEndsApply", testConflictEndsApply},
		{"IfAbsentHasOneWinner", testIfAbsentHasOneWinner},
		{"IfVersionLosesNoChange", testIfVersionLosesNoChange},
		{"DeleteIfVersionLosesNoChange", testDeleteIfVersionLosesNoChange},

		{"Upload", testUpload},
		{"UploadSuspended", testUploadSuspended},
		{"UploadSuspendedWithLess", testUploadSuspendedWithLess},
		{"UploadState", testUploadState},
		{"UploadReplaces", testUploadReplaces},
		{"UploadIsDatedWhenPut", testUploadIsDatedWhenPut},
		{"UploadOfManySizes", testUploadOfManySizes},
		{"UploadOptions", testUploadOptions},
		{"UploadCancelled", testUploadCancelled},
		{"UploadEnded", testUploadEnded},
		{"UploadMissing", testUploadMissing},
		{"UploadTwiceCreated", testUploadTwiceCreated},
		{"UploadHasOneHolder", testUploadHasOneHolder},
		{"UploadDeleted", testUploadDeleted},
		{"UploadConflict", testUploadConflict},
		{"UploadSurvivesFailedApply", testUploadSurvivesFailedApply},

		{"Attempt", testAttempt},
		{"Lock", testLock},
		{"LockHasOneHolder", testLockHasOneHolder},
	}
	t.Run("objects", func(t *testing.T) {
		t.Parallel() // with the collections, which mostly wait
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) { tt.run(t, o, open) })
		}
	})
	for _, tt := range []test{
		{"CollectionFencesAttempts", testCollectionFencesAttempts},
		{"CollectionKeepsWhatChanged", testCollectionKeepsWhatChanged},
		{"CollectionOffline", testCollectionOffline},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) { tt.run(t, o, open) })
		})
	}
}

func (tt test) run(t *testing.T, o Scale, open func(t *testing.T) (a, b storage.Store)) {
	a, b := open(t)
	defer func() {
		err := a.Close()
		if b != a {
			err = errors.Join(err, b.Close())
		}
		if err != nil {
			t.Errorf("Close: %v", err)
		}
	}()
	tt.test(t, pair{a, b, o})
}

// pair is two processes that share a storage.
type pair struct {
	a, b  storage.Store
	scale Scale
}

// both calls f for each of the processes.
func (p pair) both(f func(storage.Store)) {
	f(p.a)
	f(p.b)
}

// nth alternates between the processes.
func (p pair) nth(i int) storage.Store {
	if i%2 == 0 {
		return p.a
	}
	return p.b
}

// The helpers below end the test on an error, unless they run beside it.

func put(t *testing.T, s storage.Store, key, content string) {
	t.Helper()
	apply(t, s, storage.Stage{{Key: key, Content: []byte(content)}})
}

func remove(t *testing.T, s storage.Store, key string) {
	t.Helper()
	apply(t, s, storage.Stage{{Key: key, Delete: true}})
}

func apply(t *testing.T, s storage.Store, stages ...storage.Stage) {
	t.Helper()
	if err := s.Apply(t.Context(), nil, stages...); err != nil {
		t.Fatalf("Apply: %v", err)
	}
}

// applyMany applies a stage of many changes in parts: an attempt has a time limit, which a busy machine and a slow server reach with few hundred.
func applyMany(t *testing.T, s storage.Store, stage storage.Stage) {
	t.Helper()
	for part := range slices.Chunk(stage, 40) {
		apply(t, s, part)
	}
}

func stat(t *testing.T, s storage.Store, key string) storage.Info {
	t.Helper()
	info, err := s.Stat(t.Context(), key)
	if err != nil {
		t.Fatalf("Stat(%s): %v", key, err)
	}
	return info
}

// version waits until the store can tell the version of the object at key.
func version(t *testing.T, s storage.Store, key string) (v string) {
	t.Helper()
	eventually(t, "the object at "+key+" has a version", func() bool {
		v = stat(t, s, key).Version
		return v != ""
	})
	return v
}

// eventually waits until ok returns true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not so after %v: %s", patience, what)
		}
	}
}

// repeat calls f again and again, beside the test, until stop.
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

// wantContent checks an object through Stat, Read and Open, in both processes.
func (p pair) wantContent(t *testing.T, key, want string) {
	t.Helper()
	p.both(func(s storage.Store) { wantContent(t, s, key, want) })
}

func wantContent(t *testing.T, s storage.Store, key, want string) {
	t.Helper()
	info, err := s.Stat(t.Context(), key)
	if err != nil || info.Key != key || info.Prefix || info.Size != int64(len(want)) {
		t.Errorf("Stat(%s) = %+v, %v; want an object of %d bytes", key, info, err, len(want))
	}
	if got, _, err := storage.Read(t.Context(), s, key, int64(len(want))); err != nil || string(got) != want {
		t.Errorf("Read(%s) = %.40q (%d bytes), %v; want %.40q (%d bytes)", key, got, len(got), err, want, len(want))
	}
	o, err := s.Open(t.Context(), key, 0, -1)
	if err != nil {
		t.Errorf("Open(%s): %v", key, err)
		return
	}
	defer o.Close()
	got, err := io.ReadAll(o)
	if err != nil || !bytes.Equal(got, []byte(want)) || o.Size != int64(len(want)) || o.Key != key {
		t.Errorf("Open(%s) has %.40q (%d bytes, %+v), %v; want %.40q (%d bytes)", key, got, len(got), o.Info, err, want, len(want))
	}
}

// wantAbsent checks that neither process sees an object at key.
func (p pair) wantAbsent(t *testing.T, key string) {
	t.Helper()
	p.both(func(s storage.Store) {
		info, err := s.Stat(t.Context(), key)
		wantError(t, fmt.Sprintf("Stat(%s) = %+v", key, info), err, storage.ErrNotExist)
		o, err := s.Open(t.Context(), key, 0, -1)
		wantError(t, "Open("+key+")", err, storage.ErrNotExist)
		if err == nil {
			o.Close()
		}
	})
}

func wantError(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error is %v, want %v", what, err, want)
	}
}

// pattern is size bytes in which each block of 4 KiB has its number.
func pattern(size int) string {
	block := strings.Repeat("0123456789abcdef", 256)
	b := make([]byte, 0, size+len(block))
	for i := 0; len(b) < size; i++ {
		b = fmt.Appendf(b, "%016d", i)
		b = append(b, block[16:]...)
	}
	return string(b[:size])
}
