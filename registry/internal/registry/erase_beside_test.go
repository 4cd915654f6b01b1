package registry

import (
	"context"
	"slices"
	"testing"
	"time"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// meddled is a storage where something happens just before or after an object is
// removed, or between the stages of a commit.
type meddled struct {
	driver.Driver
	removed       string
	before, after func()
	between       func()
}

func (m *meddled) Commit(ctx context.Context, stages ...driver.Stage) error {
	for i, stage := range stages {
		meddle := stage[0].Remove && stage[0].Path == m.removed
		if meddle && m.before != nil {
			m.before()
		}
		if err := m.Driver.Commit(ctx, stage); err != nil {
			return err
		}
		if meddle && m.after != nil {
			m.after()
		}
		if i == 0 && len(stages) > 1 && m.between != nil {
			m.between()
		}
	}
	return nil
}

// What is pushed through one server while another deletes a manifest is never
// lost, and no tag is left that points at nothing.
func TestDeletionBesideAnotherServer(t *testing.T) {
	for kind, open := range drivers {
		for _, tt := range []struct {
			name   string
			before func(t *testing.T, other Repository)
			after  func(t *testing.T, other Repository)
			want   []string // tags
		}{
			{"a tag is moved away just before", func(t *testing.T, o Repository) { pushImage(t, o, "one", "y") }, nil, []string{"kept", "one"}},
			{"a tag is moved away just after", nil, func(t *testing.T, o Repository) { pushImage(t, o, "one", "y") }, []string{"kept", "one"}},
			{"it is tagged just before", func(t *testing.T, o Repository) { pushImage(t, o, "new", "x") }, nil, []string{"kept"}},
			{"it is tagged just after", nil, func(t *testing.T, o Repository) { pushImage(t, o, "new", "x") }, []string{"kept", "new"}},
			{"a tag of it is pushed again just after", nil, func(t *testing.T, o Repository) { pushImage(t, o, "two", "x") }, []string{"kept", "two"}},
		} {
			t.Run(kind+": "+tt.name, func(t *testing.T) {
				store := &meddled{Driver: open(t)}
				repo := New(Options{Driver: store, DeleteEnabled: true}).Repository("a")
				other := New(Options{Driver: store.Driver, DeleteEnabled: true}).Repository("a")
				pushImage(t, repo, "kept", "z")
				d := pushImage(t, repo, "one", "x")
				pushImage(t, repo, "two", "x")
				store.removed = layout.RevisionLink("a", d)
				store.before = func() {
					if tt.before != nil {
						tt.before(t, other)
					}
				}
				store.after = func() {
					if tt.after != nil {
						tt.after(t, other)
					}
				}
				_, err := repo.DeleteManifest(t.Context(), d)
				check(t, err)
				wantWholeTags(t, repo, tt.want)
			})
		}
	}
}

// wantWholeTags checks that those tags are listed, and that each pulls and is in
// nobody's hands.
func wantWholeTags(t *testing.T, repo Repository, want []string) {
	t.Helper()
	tags, _, err := repo.Tags(t.Context(), -1, "")
	check(t, err)
	if !slices.Equal(tags, want) {
		t.Errorf("tags = %q, want %q", tags, want)
	}
	for _, tag := range tags {
		if _, err := repo.Manifest(t.Context(), tagged(tag)); err != nil {
			t.Errorf("%s: %v", tag, err)
		}
		wantPlace(t, repo.reg.driver, layout.TagCurrent(repo.name, oci.Tag(tag)), true)
	}
}

// A push that has written the manifest's link before it is removed, and writes
// its tag after, is waited for: the tag goes with the manifest.
func TestDeletionWaitsForPushes(t *testing.T) {
	for kind, open := range drivers {
		t.Run(kind, func(t *testing.T) {
			pushing := &meddled{Driver: open(t)}
			repo := New(Options{Driver: pushing.Driver, DeleteEnabled: true}).Repository("a")
			pushImage(t, repo, "kept", "z")
			d := pushImage(t, repo, "one", "x")
			deleted := make(chan error, 1)
			pushing.between = func() {
				go func() {
					_, err := repo.DeleteManifest(context.Background(), d)
					deleted <- err
				}()
				for {
					if _, err := pushing.Stat(t.Context(), layout.RevisionLink("a", d)); absent(err) {
						break
					}
					time.Sleep(time.Millisecond)
				}
				select {
				case err := <-deleted:
					t.Errorf("the deletion (%v) does not wait", err)
					deleted <- err
				case <-time.After(20 * time.Millisecond):
				}
			}
			pushImage(t, New(Options{Driver: pushing}).Repository("a"), "new", "x")
			check(t, <-deleted)
			wantWholeTags(t, repo, []string{"kept"})
		})
	}
}

// roomless is a storage on which nothing can be set aside, nor waited for.
type roomless struct{ driver.Driver }

func (roomless) SetAside(context.Context, string, string) error { return driver.ErrNoSpace }
func (roomless) Barrier(context.Context) error                  { return driver.ErrNoSpace }

// A registry that nobody could be told of, for want of room, deletes manifests
// with their tags.
func TestDeletionWithoutRoom(t *testing.T) {
	for kind, open := range drivers {
		t.Run(kind, func(t *testing.T) {
			repo := New(Options{Driver: roomless{open(t)}, DeleteEnabled: true}).Repository("a")
			pushImage(t, repo, "kept", "z")
			d := pushImage(t, repo, "one", "x")
			_, err := repo.DeleteManifest(t.Context(), d)
			check(t, err)
			wantWholeTags(t, repo, []string{"kept"})
		})
	}
}

// waiting is a storage whose barriers last until somebody ends them.
type waiting struct {
	driver.Driver
	begun, end chan struct{}
}

func (w *waiting) Barrier(ctx context.Context) error {
	close(w.begun)
	<-w.end
	return w.Driver.Barrier(ctx)
}

// While a deletion waits for pushes of others, which may be stopped, nobody waits
// for the deletion; and what is pushed meanwhile stays.
func TestNobodyWaitsForAWaitingDeletion(t *testing.T) {
	for kind, open := range drivers {
		t.Run(kind, func(t *testing.T) {
			store := &waiting{open(t), make(chan struct{}), make(chan struct{})}
			repo := New(Options{Driver: store, DeleteEnabled: true}).Repository("a")
			d := pushImage(t, repo, "one", "x")
			pushImage(t, repo, "other", "z")
			deleted, pushed := make(chan error, 1), make(chan struct{})
			go func() {
				_, err := repo.DeleteManifest(context.Background(), d)
				deleted <- err
			}()
			<-store.begun
			go func() {
				defer close(pushed)
				pushImage(t, repo, "two", "y")
				pushImage(t, repo, "again", "x")
				if err := repo.DeleteTag(context.Background(), "other"); err != nil {
					t.Error(err)
				}
			}()
			select {
			case <-pushed:
			case <-time.After(2 * time.Second):
				t.Error("a push waits for the deletion")
			}
			close(store.end)
			<-pushed
			check(t, <-deleted)
			wantWholeTags(t, repo, []string{"again", "two"})
		})
	}
}

// crowded is a storage on which nobody can be waited for, for want of room, while
// somebody finds some.
type crowded struct {
	driver.Driver
	meanwhile func()
}

func (c *crowded) Barrier(context.Context) error {
	c.meanwhile()
	return driver.ErrNoSpace
}

// What is pushed while a deletion finds that it cannot wait is not undone.
func TestDeletionWithoutRoomUndoesNoPush(t *testing.T) {
	for kind, open := range drivers {
		t.Run(kind, func(t *testing.T) {
			store := &crowded{Driver: open(t)}
			repo := New(Options{Driver: store, DeleteEnabled: true}).Repository("a")
			d := pushImage(t, repo, "one", "x")
			pushImage(t, repo, "two", "x")
			pushImage(t, repo, "three", "x")
			store.meanwhile = func() {
				pushImage(t, repo, "one", "x")
				pushImage(t, repo, "two", "y")
			}
			_, err := repo.DeleteManifest(t.Context(), d)
			check(t, err)
			wantWholeTags(t, repo, []string{"one", "two"})
		})
	}
}
