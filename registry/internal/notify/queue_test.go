package notify

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func records(from, n, size int) []record {
	all := make([]record, n)
	for i := range all {
		all[i] = record{seq: uint64(from + i), at: time.Unix(int64(from+i), 0).UTC(), body: bytes.Repeat([]byte{'x'}, size)}
	}
	return all
}

// openRow opens a row on the disk.
func openRow(t *testing.T, dir string, limit int64) (*row, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	r := &row{}
	if err := r.open(dir, limit, zap.New(core)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.log.close() })
	return r, logs
}

// queueOf is a queue with the one row.
func queueOf(r *row, logs *zap.Logger) *queue {
	q := &queue{more: make(chan struct{}, 1), log: logs}
	q.changes = *r
	return q
}

// drain takes everything out and returns the numbers.
func drain(r *row) []uint64 {
	q := queueOf(r, zap.NewNop())
	var all []uint64
	for x, ok := q.next(); ok; x, ok = q.next() {
		all = append(all, x.seq)
		q.settle(x.seq)
	}
	*r = q.changes
	return all
}

// A row on the disk holds what one in memory holds, also when it is opened anew
// at any moment, and counts the same.
func TestRow_OnDiskAndInMemoryAreEqual(t *testing.T) {
	for seed := range uint64(6) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		dir := t.TempDir()
		disk, logs := openRow(t, dir, 2000)
		memory := &row{}
		next := 1
		for step := range 400 {
			switch rnd.IntN(12) {
			case 0, 1, 2, 3, 4:
				batch := records(next, 1+rnd.IntN(5), 1+rnd.IntN(700))
				next += len(batch)
				if err := errors.Join(disk.append(batch), memory.append(batch)); err != nil {
					t.Fatal(err)
				}
			case 5, 6, 7, 8:
				if len(memory.items) > 0 {
					disk.pop()
					memory.pop()
				}
			case 9:
				drain(disk)
				drain(memory)
			case 10, 11:
				disk.log.close()
				disk, logs = openRow(t, dir, 2000)
			}
			if len(disk.items) != len(memory.items) || disk.bytes != memory.bytes {
				t.Fatalf("seed %d, step %d: %d of %d bytes; want %d of %d", seed, step, len(disk.items), disk.bytes, len(memory.items), memory.bytes)
			}
			for i := range min(2, len(memory.items)) {
				a, err := disk.read(disk.items[i])
				b, _ := memory.read(memory.items[i])
				if err != nil || a.seq != b.seq || !a.at.Equal(b.at) || !bytes.Equal(a.body, b.body) || !disk.items[i].time().Equal(b.at) {
					t.Fatalf("seed %d, step %d: number %d is %d %v, want %d", seed, step, i, a.seq, err, b.seq)
				}
			}
			if step%8 > 0 {
				continue
			}
			seen := 0
			if err := scanLog(dir, func(f scannedFile) { seen += len(f.items) }); err != nil || seen != len(memory.items) {
				t.Fatalf("seed %d, step %d: a reader beside it sees %d, %v, want %d", seed, step, seen, err, len(memory.items))
			}
		}
		if logs.Len() > 0 {
			t.Errorf("it complains: %v", logs.All())
		}
		if got, want := drain(disk), drain(memory); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if files, _ := filepath.Glob(filepath.Join(dir, "*"+segmentSuffix)); len(files) > 1 {
			t.Errorf("%d segments are left of an empty row", len(files))
		}
	}
}

// Wherever a crash tears the last write, the whole records before it are there,
// the rest is cut, and logged once.
func TestTornEnd(t *testing.T) {
	dir := t.TempDir()
	l, _ := openRow(t, dir, 1<<20)
	if err := l.append(records(1, 3, 40)); err != nil {
		t.Fatal(err)
	}
	l.log.close()
	path := filepath.Join(dir, segmentName(1))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	size := recordHead + 40
	for _, garbage := range [][]byte{nil, {0, 0, 0, 0, 0, 0}, bytes.Repeat([]byte{0xff}, 100), bytes.Repeat([]byte{0}, 4096)} {
		for cut := range len(whole) + 1 {
			torn := append(bytes.Clone(whole[:cut]), garbage...)
			if err := os.WriteFile(path, torn, 0o600); err != nil {
				t.Fatal(err)
			}
			want := max(cut-len(segmentMagic), 0) / size
			l, logs := openRow(t, dir, 1<<20)
			if len(l.items) != want {
				t.Fatalf("cut at %d with %d bytes behind: %d records, want %d", cut, len(garbage), len(l.items), want)
			}
			l.log.close()
			said := logs.FilterMessageSnippet("middle of an event").Len()
			if clean := len(torn) == 0 || garbage == nil && cut == len(segmentMagic)+want*size; (said == 0) != clean {
				t.Errorf("cut at %d with %d bytes behind: logged %d times", cut, len(garbage), said)
			}
			if l, logs = openRow(t, dir, 1<<20); logs.Len() > 0 || len(l.items) != want {
				t.Errorf("it is logged again, or not the same: %d, %v", len(l.items), logs.All())
			}
			l.log.close()
		}
	}
}

// Whatever bit flips, no record is made up: what is read is a prefix of what was
// written.
func TestFlippedBits(t *testing.T) {
	dir := t.TempDir()
	l, _ := openRow(t, dir, 1<<20)
	l.append(records(1, 3, 20))
	l.log.close()
	path := filepath.Join(dir, segmentName(1))
	whole, _ := os.ReadFile(path)
	for i := 0; i < len(whole)*8; i += 5 {
		damaged := bytes.Clone(whole)
		damaged[i/8] ^= 1 << (i % 8)
		os.WriteFile(path, damaged, 0o600)
		os.Remove(filepath.Join(dir, cursorName))
		l, _ := openRow(t, dir, 1<<20)
		got := drain(l)
		if want := []uint64{1, 2, 3}; len(got) >= 3 || !slices.Equal(got, want[:len(got)]) {
			t.Fatalf("bit %d: %v", i, got)
		}
		l.log.close()
	}
}

// A file that becomes unreadable while the registry runs loses its events, and no
// others.
func TestDamageWhileOpen(t *testing.T) {
	dir := t.TempDir()
	l, _ := openRow(t, dir, 300)
	for i := range 4 {
		l.append(records(1+2*i, 2, 100))
	}
	path := filepath.Join(dir, segmentName(1))
	content, _ := os.ReadFile(path)
	content[len(segmentMagic)+recordHead] ^= 1
	os.WriteFile(path, content, 0o600)
	core, logs := observer.New(zap.DebugLevel)
	q := queueOf(l, zap.New(core))
	if first, _ := q.next(); first.seq != 3 || logs.FilterMessageSnippet("lost").Len() != 1 {
		t.Errorf("%d, %v", first.seq, logs.All())
	}
	if got := drain(&q.changes); !slices.Equal(got, []uint64{3, 4, 5, 6, 7, 8}) {
		t.Errorf("%v", got)
	}
}

// After a failed flush nothing is written to the same file again.
func TestSeal(t *testing.T) {
	dir := t.TempDir()
	l, _ := openRow(t, dir, 1<<20)
	l.append(records(1, 1, 10))
	l.log.sealed = true
	l.append(records(2, 1, 10))
	l.append(records(3, 1, 10))
	if files, _ := filepath.Glob(filepath.Join(dir, "*"+segmentSuffix)); len(files) != 2 {
		t.Errorf("segments %v", files)
	}
	if got := drain(l); !slices.Equal(got, []uint64{1, 2, 3}) {
		t.Error(got)
	}
}

func memoryQueue(t *testing.T, maxSize int64) *queue {
	t.Helper()
	q, err := openQueue("", maxSize, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func (q *queue) all() string {
	var s []string
	for r, ok := q.next(); ok; r, ok = q.next() {
		s = append(s, string(r.body))
		q.settle(r.seq)
	}
	return strings.Join(s, " ")
}

func change(t *testing.T, q *queue, names ...string) {
	t.Helper()
	put(t, q, false, names)
}

func pull(t *testing.T, q *queue, names ...string) {
	t.Helper()
	put(t, q, true, names)
}

func put(t *testing.T, q *queue, pull bool, names []string) {
	t.Helper()
	events := make([]record, len(names))
	for i, n := range names {
		events[i] = record{at: time.Now(), body: []byte(n), pull: pull}
	}
	flush, err := q.add(events)
	if err == nil {
		err = flush()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestQueueKeepsTheOrder(t *testing.T) {
	dir := t.TempDir()
	q, err := openQueue(dir, 1<<20, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	change(t, q, "c1")
	pull(t, q, "p1", "p2")
	change(t, q, "c2", "c3")
	q.close()
	if q, err = openQueue(dir, 1<<20, zap.NewNop()); err != nil {
		t.Fatal(err)
	}
	defer q.close()
	pull(t, q, "p3")
	change(t, q, "c4")
	if got := q.all(); got != "c1 p1 p2 c2 c3 p3 c4" {
		t.Error(got)
	}
}

// A full queue loses pulls first, the oldest of them before others; then the
// oldest changes; and a pull never displaces a change.
func TestFullQueue(t *testing.T) {
	for _, kind := range []string{"memory", "disk"} {
		t.Run(kind, func(t *testing.T) {
			const size, room = recordHead + 1000, 64
			q := memoryQueue(t, size*room)
			if kind == "disk" {
				var err error
				if q, err = openQueue(t.TempDir(), size*room, zap.NewNop()); err != nil {
					t.Fatal(err)
				}
				defer q.close()
			}
			name := func(s string, i int) string { return fmt.Sprintf("%s%03d", s, i) + strings.Repeat(".", 996) }
			for i := range 2 * room {
				pull(t, q, name("p", i))
			}
			b := q.backlog()
			d := q.takeDropped()
			if b.pulls+d.pulls != 2*room || b.pulls < room*3/4 || b.bytes > q.max || d.changes != 0 {
				t.Fatalf("of pulls %+v are left, %+v dropped", b, d)
			}
			if r, _ := q.next(); !bytes.HasPrefix(r.body, []byte(name("p", d.pulls))) {
				t.Errorf("the first is %.4s, so not the oldest were dropped", r.body)
			}
			for i := range room {
				change(t, q, name("c", i))
			}
			b = q.backlog()
			if b.changes != room || b.pulls != 0 {
				t.Fatalf("changes did not displace pulls: %+v", b)
			}
			q.takeDropped()
			pull(t, q, name("p", 999))
			if b, d := q.backlog(), q.takeDropped(); b.changes != room || b.pulls != 0 || d != (dropped{pulls: 1}) {
				t.Fatalf("a pull displaced something: %+v, %+v", b, d)
			}
			change(t, q, name("c", room))
			b, d = q.backlog(), q.takeDropped()
			if b.changes+d.changes != room+1 || d.changes == 0 || d.changes > room/4 {
				t.Fatalf("%+v, %+v", b, d)
			}
			if r, _ := q.next(); !bytes.HasPrefix(r.body, []byte(name("c", d.changes))) {
				t.Errorf("the first is %.4s", r.body)
			}
		})
	}
}

func TestFirst(t *testing.T) {
	q := memoryQueue(t, 1<<20)
	change(t, q, "c1")
	pull(t, q, "p1", "p2")
	change(t, q, "c2")
	for n, want := range []string{"", "c1", "c1 p1", "c1 p1 p2", "c1 p1 p2 c2", "c1 p1 p2 c2"} {
		var got []string
		for _, r := range q.first(n) {
			if got = append(got, string(r.body)); r.pull != (r.body[0] == 'p') {
				t.Errorf("%s: pull = %v", r.body, r.pull)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("the first %d are %v, want %s", n, got, want)
		}
	}
}

// What is being sent while it is dropped takes nothing else with it.
func TestSettleAfterDrop(t *testing.T) {
	q := memoryQueue(t, 1<<20)
	change(t, q, "a", "b")
	sending, _ := q.next()
	q.changes.pop()
	q.settle(sending.seq)
	if q.waits(sending.seq) || q.all() != "b" {
		t.Error("b is gone with a")
	}
}

func TestDrop(t *testing.T) {
	q := memoryQueue(t, 1<<20)
	change(t, q, "a")
	pull(t, q, "p")
	until := time.Now()
	change(t, q, "b")
	if n, rest := q.drop(until), q.all(); n != 2 || rest != "b" {
		t.Errorf("dropped %d, left %s", n, rest)
	}
}

func FuzzParseRecord(f *testing.F) {
	r := record{seq: 1, at: time.Unix(5, 6), body: []byte("{}")}
	f.Add(r.appendTo(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, ok := parseRecord(b)
		if !ok {
			return
		}
		if again := r.appendTo(nil); !bytes.Equal(again, b[:len(again)]) {
			t.Errorf("%x became %x", b, again)
		}
	})
}
