package notify

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	bolterrors "go.etcd.io/bbolt/errors"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// limit keeps the file from growing, as a full disk does, until restore is called.
func (f *file) limit(t *testing.T) (restore func()) {
	t.Helper()
	info, err := os.Stat(f.path)
	if err != nil {
		t.Fatal(err)
	}
	f.db.MaxSize = int(info.Size())
	return func() { f.db.MaxSize = 0 }
}

func openTest(t *testing.T, dir string) (*file, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	f, err := openFile(dir, 1<<20, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.close() })
	return f, logs
}

func bodies(events []*event) string {
	var all []string
	for _, e := range events {
		all = append(all, string(e.body))
	}
	return strings.Join(all, " ")
}

// A file holds what a list holds, also when it is opened again at any moment.
func TestFile_EqualsList(t *testing.T) {
	const max = 3000
	for seed := range uint64(4) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		dir := t.TempDir()
		f, _ := openTest(t, dir)
		var want []string
		size := func() (n int) {
			for _, s := range want {
				n += len(s)
			}
			return n
		}
		for step := range 200 {
			switch rnd.IntN(8) {
			case 0, 1, 2, 3:
				var events []*event
				dropped := 0
				for i := range 1 + rnd.IntN(4) {
					body := fmt.Sprint(step, ".", i, strings.Repeat("x", rnd.IntN(900)))
					body += strings.Repeat("x", 100-len(body)%100) // so that some fill the queue to the last byte
					events = append(events, &event{body: []byte(body)})
					for size()+len(body) > max {
						want = want[1:]
						dropped++
					}
					want = append(want, body)
				}
				got, err := f.put([]queued{{"e", events}}, max)
				if err != nil || got[0] != dropped {
					t.Fatalf("dropped %v, want %d, %v", got, dropped, err)
				}
			case 4, 5, 6:
				events, err := f.after("e", 0, 1+rnd.IntN(3))
				if err != nil {
					t.Fatal(err)
				}
				if len(events) > 0 {
					_, err = f.remove("e", events[len(events)-1].seq)
				}
				if err != nil {
					t.Fatal(err)
				}
				want = want[len(events):]
			case 7:
				f.close()
				f, _ = openTest(t, dir)
			}
			all, err := f.after("e", 0, -1)
			if err != nil || bodies(all) != strings.Join(want, " ") {
				t.Fatalf("seed %d, step %d: %v\ngot  %s\nwant %s", seed, step, err, bodies(all), strings.Join(want, " "))
			}
			b, err := f.backlog("e")
			if err != nil || b.Changes != len(want) || int(b.Bytes) != size() {
				t.Fatalf("seed %d, step %d: %+v, %v", seed, step, b, err)
			}
		}
	}
}

// Calls at the same time all store their events, in each endpoint's bucket.
func TestFile_Concurrent(t *testing.T) {
	f, _ := openTest(t, t.TempDir())
	var group sync.WaitGroup
	for i := range 32 {
		group.Go(func() {
			for j := range 10 {
				e := []*event{{body: fmt.Appendf(nil, "%d.%d", i, j)}}
				if _, err := f.put([]queued{{"a", e}, {"b", e}}, 1<<20); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	for _, name := range []string{"a", "b"} {
		if b, err := f.backlog(name); b.Changes != 320 || err != nil {
			t.Errorf("%s has %d events, %v", name, b.Changes, err)
		}
	}
}

// A damaged file stays as it is; another one is used, and the log names it.
func TestFile_Damaged(t *testing.T) {
	whole := func() []byte {
		dir := t.TempDir()
		f, _ := openTest(t, dir)
		var events []*event
		for range 100 {
			events = append(events, &event{body: bytes.Repeat([]byte("x"), 1000)})
		}
		if _, err := f.put([]queued{{"e", events}}, 1<<20); err != nil {
			t.Fatal(err)
		}
		f.close()
		content, err := os.ReadFile(filepath.Join(dir, "queue-0.db"))
		if err != nil {
			t.Fatal(err)
		}
		return content
	}()
	page := os.Getpagesize()
	zeroed := bytes.Clone(whole)
	clear(zeroed[2*page:])
	for name, content := range map[string][]byte{
		"foreign": bytes.Repeat([]byte("something else\n"), 5000), "short": whole[:page/2], "cut": whole[:len(whole)/2/page*page], "zeroed": zeroed,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "queue-0.db")
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			f, logs := openTest(t, dir)
			if _, err := f.put([]queued{{"e", []*event{{body: []byte("1")}}}}, 1<<20); err != nil {
				t.Error(err)
			}
			if filepath.Base(f.path) != "queue-1.db" || logs.FilterMessageSnippet("is damaged").FilterField(zap.String("file", path)).Len() != 1 {
				t.Errorf("%s, %v", f.path, logs.All())
			}
			if left, err := os.ReadFile(path); err != nil || !bytes.Equal(left, content) {
				t.Error("the damaged file was changed", err)
			}
		})
	}
}

// A second opener is told that the file is in use.
func TestFile_Locked(t *testing.T) {
	f, _ := openTest(t, t.TempDir())
	if _, err := open(f.path, true); !errors.Is(err, bolterrors.ErrTimeout) {
		t.Error(err)
	}
}

// A directory that cannot be one is an error that names it.
func TestNoDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := New(Options{Endpoints: []Endpoint{{Name: "x", URL: "http://x"}}, Directory: path + "/queue", MaxSize: 1 << 20, Version: V1, Log: zap.NewNop()})
	if !errors.Is(err, syscall.ENOTDIR) || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
}

// Garbage in any page of a file stops neither the opener nor its writers: bbolt commits in goroutines whose
// panics nothing could recover.
func TestFile_DamagedPage(t *testing.T) {
	dir := t.TempDir()
	f, _ := openTest(t, dir)
	for i := range 30 {
		if _, err := f.put([]queued{{"e", []*event{{body: bytes.Repeat([]byte{byte(i)}, 1000)}}}}, 10_000); err != nil {
			t.Fatal(err)
		}
	}
	f.close()
	whole, err := os.ReadFile(filepath.Join(dir, "queue-0.db"))
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	for at := 0; at < len(whole); at += page {
		for _, garbage := range []byte{0, 'x'} {
			dir := t.TempDir()
			damaged := bytes.Clone(whole)
			copy(damaged[at:], bytes.Repeat([]byte{garbage}, page))
			if err := os.WriteFile(filepath.Join(dir, "queue-0.db"), damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			f, _ := openTest(t, dir)
			for range 5 {
				if _, err := f.put([]queued{{"e", []*event{{body: bytes.Repeat([]byte("x"), 1000)}}}}, 10_000); err != nil {
					t.Errorf("page %d with %#x: %v", at/page, garbage, err)
				}
			}
			if _, err := f.drop("e"); err != nil {
				t.Errorf("page %d with %#x: %v", at/page, garbage, err)
			}
			f.close()
		}
	}
}
