package sharedstate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
)

// observed counts opened objects, fails while fails is set, and calls reading before each answer.
type observed struct {
	storage.Store
	opened  atomic.Int64
	fails   atomic.Bool
	reading func()
}

func (o *observed) Open(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	o.opened.Add(1)
	if o.fails.Load() {
		return nil, errors.New("away")
	}
	object, err := o.Store.Open(ctx, key, offset, length)
	if o.reading != nil {
		o.reading()
	}
	return object, err
}

func newTexts(store storage.Store) *Records[string] {
	return NewRecords(store, func(_ string, content []byte) *string {
		if len(content) == 0 {
			return nil
		}
		text := string(content)
		return &text
	})
}

func (r *Records[T]) put(t testing.TB, key, content string) {
	t.Helper()
	if err := r.Apply(t.Context(), storage.Change{Key: key, Content: []byte(content)}); err != nil {
		t.Fatal(err)
	}
}

func wantText(t testing.TB, want string, get func(context.Context, string) (*string, error), key string) {
	t.Helper()
	if got, err := get(t.Context(), key); err != nil || *got != want {
		t.Errorf("got %v, %v, want %q", got, err, want)
	}
}

func TestRecords_AreTrustedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &observed{Store: memory.New()}
		here, there := newTexts(store), newTexts(store)
		if _, err := here.Get(t.Context(), "/a"); !errors.Is(err, storage.ErrNotExist) {
			t.Errorf("nothing: %v", err)
		}
		there.put(t, "/a", "1")
		wantText(t, "1", here.Get, "/a")
		there.put(t, "/a", "2")
		before := store.opened.Load()
		wantText(t, "1", here.Get, "/a")
		wantText(t, "1", here.Renew, "/a")
		if n := store.opened.Load() - before; n > 0 {
			t.Errorf("%d reads of what was just read", n)
		}
		time.Sleep(renewPause)
		wantText(t, "2", here.Renew, "/a")
		there.put(t, "/a", "3")
		time.Sleep(Fresh)
		wantText(t, "3", here.Get, "/a")
		here.put(t, "/a", "4")
		wantText(t, "4", here.Get, "/a")
		here.put(t, "/a", "")
		if _, err := here.Get(t.Context(), "/a"); !errors.Is(err, storage.ErrNotExist) {
			t.Errorf("what stands for nothing: %v", err)
		}
	})
}

// While the storage can't be read, what is known counts for half a minute, and is asked for every two seconds.
func TestRecords_OfAStoreThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &observed{Store: memory.New()}
		r := newTexts(store)
		r.put(t, "/a", "1")
		wantText(t, "1", r.Get, "/a")
		store.fails.Store(true)
		before := store.opened.Load()
		for range 15 {
			time.Sleep(Fresh)
			wantText(t, "1", r.Get, "/a")
			wantText(t, "1", r.Get, "/a")
		}
		if n := store.opened.Load() - before; n != 15 {
			t.Errorf("%d reads in 15 times %v", n, Fresh)
		}
		time.Sleep(Fresh)
		if _, err := r.Get(t.Context(), "/a"); !errors.Is(err, ErrUnread) {
			t.Errorf("after half a minute: %v", err)
		}
		if _, err := r.Get(t.Context(), "/b"); !errors.Is(err, ErrUnread) {
			t.Errorf("what was never read: %v", err)
		}
		store.fails.Store(false)
		wantText(t, "1", r.Get, "/a")
	})
}

// A read that began before a change neither answers a later call, nor is kept.
func TestRecords_ChangeDuringARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &observed{Store: memory.New()}
		r := newTexts(store)
		r.put(t, "/a", "old")
		finish := make(chan struct{})
		store.reading = func() { <-finish }
		go func() { _, _ = r.Get(t.Context(), "/a") }()
		synctest.Wait()
		store.reading = nil
		r.put(t, "/a", "new")
		wantText(t, "new", r.Get, "/a")
		close(finish)
		synctest.Wait()
		wantText(t, "new", r.Get, "/a")
	})
}

func TestRecords_List(t *testing.T) {
	store := &observed{Store: memory.New()}
	r := newTexts(store)
	for _, key := range []string{"/p/b", "/p/a", "/p/c", "/p/no", "/q"} {
		r.put(t, key, key)
	}
	list := func(limit int) (texts []string, more bool) {
		t.Helper()
		all, more, err := r.List(t.Context(), "/p", func(key string) bool { return !strings.HasSuffix(key, "no") }, limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range all {
			texts = append(texts, *text)
		}
		return texts, more
	}
	if got, more := list(3); more || !slices.Equal(got, []string{"/p/a", "/p/b", "/p/c"}) {
		t.Errorf("got %q, %v", got, more)
	}
	if got, more := list(2); !more || len(got) != 2 {
		t.Errorf("got %q, %v", got, more)
	}
	r.put(t, "/p/b", "other")
	before := store.opened.Load()
	if got, _ := list(3); !slices.Equal(got, []string{"/p/a", "other", "/p/c"}) {
		t.Errorf("got %q", got)
	}
	if n := store.opened.Load() - before; n != 1 {
		t.Errorf("%d reads, though one record has changed", n)
	}
}
