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
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// records are events of consecutive seconds.
func records(from, n, size int) []record {
	all := make([]record, n)
	for i := range all {
		all[i] = record{time: time.Unix(int64(from+i), 0), body: bytes.Repeat([]byte{'x'}, size)}
	}
	return all
}

// put puts records at the end and persists them.
func (l *eventLog) put(records []record) error {
	l.mu.Lock()
	for _, r := range records {
		l.push(r)
	}
	l.mu.Unlock()
	return l.persist()
}

// openLog opens a log, on the disk unless dir is "".
func openLog(t *testing.T, dir string, limit int64) (*eventLog, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	l := &eventLog{dir: dir, limit: limit, log: zap.New(core), fsync: (*os.File).Sync, mu: &sync.Mutex{}}
	if err := l.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.close() })
	return l, logs
}

// queueOf is a queue with the one log.
func queueOf(l *eventLog) *queue {
	return &queue{more: make(chan struct{}, 1), logs: []*eventLog{l}}
}

// drain takes everything out and returns the seconds.
func drain(l *eventLog) []int64 {
	q := queueOf(l)
	var all []int64
	for x := q.next(nil); x != nil; x = q.next(nil) {
		all = append(all, x.time.Unix())
		q.settle(x)
	}
	return all
}

// A log on the disk holds what one in memory holds, also when it is opened anew
// at any moment, and counts the same.
func TestLog_OnDiskAndInMemoryAreEqual(t *testing.T) {
	for seed := range uint64(6) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		dir := t.TempDir()
		disk, logs := openLog(t, dir, 2000)
		memory, _ := openLog(t, "", 0)
		next := 1
		for step := range 400 {
			switch rnd.IntN(12) {
			case 0, 1, 2, 3, 4:
				batch := records(next, 1+rnd.IntN(5), 1+rnd.IntN(700))
				next += len(batch)
				if err := errors.Join(disk.put(batch), memory.put(batch)); err != nil {
					t.Fatal(err)
				}
			case 5, 6, 7, 8:
				if disk.pop() != memory.pop() {
					t.Fatalf("seed %d, step %d: only one of them had an event", seed, step)
				}
			case 9:
				drain(disk)
				drain(memory)
			case 10, 11:
				disk.close()
				disk, logs = openLog(t, dir, 2000)
			}
			if disk.count != memory.count || disk.bytes != memory.bytes {
				t.Fatalf("seed %d, step %d: %d of %d bytes; want %d of %d", seed, step, disk.count, disk.bytes, memory.count, memory.bytes)
			}
			for i := range min(2, memory.count) {
				a, err := disk.peek(i)
				b, _ := memory.peek(i)
				if err != nil || !a.time.Equal(b.time) || !bytes.Equal(a.body, b.body) {
					t.Fatalf("seed %d, step %d: number %d is %v %v, want %v", seed, step, i, a, err, b)
				}
			}
			if step%8 > 0 {
				continue
			}
			beside := &eventLog{dir: dir}
			if err := beside.scan(); err != nil || beside.count != memory.count || beside.bytes != memory.bytes {
				t.Fatalf("seed %d, step %d: a reader beside it sees %d, %v, want %d", seed, step, beside.count, err, memory.count)
			}
		}
		if logs.Len() > 0 {
			t.Errorf("it complains: %v", logs.All())
		}
		if got, want := drain(disk), drain(memory); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if files, _ := filepath.Glob(filepath.Join(dir, "*"+fileSuffix)); len(files) > 1 {
			t.Errorf("%d files are left of an empty row", len(files))
		}
	}
}

// Wherever a crash tears the last write, the whole records before it are there,
// the rest is cut, and logged once.
func TestTornEnd(t *testing.T) {
	dir := t.TempDir()
	l, _ := openLog(t, dir, 1<<20)
	if err := l.put(records(1, 3, 40)); err != nil {
		t.Fatal(err)
	}
	l.close()
	path := filepath.Join(dir, fileName(1))
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
			want := max(cut-len(fileMagic), 0) / size
			l, logs := openLog(t, dir, 1<<20)
			if l.count != want {
				t.Fatalf("cut at %d with %d bytes behind: %d records, want %d", cut, len(garbage), l.count, want)
			}
			l.close()
			said := logs.FilterMessageSnippet("middle of an event").Len()
			if clean := len(torn) == 0 || garbage == nil && cut == len(fileMagic)+want*size; (said == 0) != clean {
				t.Errorf("cut at %d with %d bytes behind: logged %d times", cut, len(garbage), said)
			}
			if l, logs = openLog(t, dir, 1<<20); logs.Len() > 0 || l.count != want {
				t.Errorf("it is logged again, or not the same: %d, %v", l.count, logs.All())
			}
			l.close()
		}
	}
}

// Whatever bit flips, no record is made up: what is read is a prefix of what was
// written.
func TestFlippedBits(t *testing.T) {
	dir := t.TempDir()
	l, _ := openLog(t, dir, 1<<20)
	l.put(records(1, 3, 20))
	l.close()
	path := filepath.Join(dir, fileName(1))
	whole, _ := os.ReadFile(path)
	for i := 0; i < len(whole)*8; i += 5 {
		damaged := bytes.Clone(whole)
		damaged[i/8] ^= 1 << (i % 8)
		os.WriteFile(path, damaged, 0o600)
		os.Remove(filepath.Join(dir, cursorName))
		l, _ := openLog(t, dir, 1<<20)
		got := drain(l)
		if want := []int64{1, 2, 3}; len(got) >= 3 || !slices.Equal(got, want[:len(got)]) {
			t.Fatalf("bit %d: %v", i, got)
		}
		l.close()
	}
}

// A file that becomes unreadable while the registry runs loses its events, and no
// others.
func TestDamageWhileOpen(t *testing.T) {
	dir := t.TempDir()
	l, logs := openLog(t, dir, 300)
	for i := range 4 {
		l.put(records(1+2*i, 2, 100))
	}
	path := filepath.Join(dir, fileName(1))
	content, _ := os.ReadFile(path)
	content[len(fileMagic)+recordHead] ^= 1
	os.WriteFile(path, content, 0o600)
	if first := queueOf(l).next(nil); first.time.Unix() != 3 || logs.FilterMessageSnippet("lost").Len() != 1 {
		t.Errorf("%v, %v", first.time, logs.All())
	}
	if got := drain(l); !slices.Equal(got, []int64{3, 4, 5, 6, 7, 8}) {
		t.Errorf("%v", got)
	}
}

// A process without free descriptors loses no event: what it cannot open waits.
func TestNoDescriptors(t *testing.T) {
	dir := t.TempDir()
	q := newQueue(t, dir, 1<<20)
	change(t, q, "a")
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := limit
	none.Cur = 0
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	first := q.next(nil)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if first != nil {
		t.Error("it was read without a descriptor")
	}
	if got := q.all(); got != "a" {
		t.Errorf("%q is left", got)
	}
}

// A full file without a successor proves nothing: until there can be one the log says
// that it fails, even if the events in doubt were dropped meanwhile.
func TestPersist_NoNewFile(t *testing.T) {
	dir := t.TempDir()
	l, _ := openLog(t, dir, 300)
	if err := l.put(records(1, 2, 100)); err != nil {
		t.Fatal(err)
	}
	l.dir = filepath.Join(dir, "missing")
	if l.put(records(3, 1, 100)) == nil {
		t.Fatal("it is written nowhere")
	}
	l.dir = dir
	for l.pop() {
		continue
	}
	l.dir = filepath.Join(dir, "missing")
	if l.persist() == nil || l.failure() == nil {
		t.Error("it is ready, though it cannot begin a file")
	}
	l.dir = dir
	if err := l.put(records(4, 1, 100)); err != nil || l.failure() != nil {
		t.Error(err)
	}
	if got := drain(l); !slices.Equal(got, []int64{4}) {
		t.Error(got)
	}
}

// After a failed flush nothing is written to the same file again, and what was in doubt
// is written once more, to another; nothing is there twice.
func TestFailedFlush(t *testing.T) {
	dir := t.TempDir()
	l, _ := openLog(t, dir, 1<<20)
	l.put(records(1, 1, 10))
	l.fsync = func(*os.File) error { return syscall.EIO }
	if err := l.put(records(2, 1, 10)); !errors.Is(err, syscall.EIO) || len(l.pending) != 1 {
		t.Errorf("%v, %d in memory", err, len(l.pending))
	}
	l.fsync = (*os.File).Sync
	if err := l.put(records(3, 1, 10)); err != nil || len(l.pending) != 0 {
		t.Errorf("%v, %d in memory", err, len(l.pending))
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*"+fileSuffix)); len(files) != 2 {
		t.Errorf("files %v", files)
	}
	killed, _ := openLog(t, dir, 1<<20)
	if got := drain(killed); !slices.Equal(got, []int64{1, 2, 3}) {
		t.Error(got)
	}
}

// An event that comes while others are flushed is not lost, and one that is flushed is not
// taken out, whether the flush succeeds or fails.
func TestFlushBesideOthers(t *testing.T) {
	for _, result := range []error{nil, syscall.EIO} {
		dir := t.TempDir()
		l, _ := openLog(t, dir, 1<<20)
		l.fsync = func(*os.File) error {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.pop() {
				t.Error("what is being flushed is taken out")
			}
			l.fsync = (*os.File).Sync
			for _, r := range records(3, 1, 10) {
				l.push(r)
			}
			return result
		}
		if err := l.put(records(1, 2, 10)); !errors.Is(err, result) {
			t.Error(err)
		}
		if err := l.persist(); err != nil {
			t.Error(err)
		}
		beside := &eventLog{dir: dir}
		if err := beside.scan(); err != nil || beside.count != 3 {
			t.Errorf("%v: %d are on the disk, %v", result, beside.count, err)
		}
		if got := drain(l); !slices.Equal(got, []int64{1, 2, 3}) {
			t.Errorf("%v: %v", result, got)
		}
		if files, _ := filepath.Glob(filepath.Join(dir, "*"+fileSuffix)); len(files) > 1 {
			t.Errorf("%v: files %v are left", result, files)
		}
	}
}

// What the disk takes nothing of for long is written in the end, in files of the size
// that files have.
func TestPersist_ManyFiles(t *testing.T) {
	dir := t.TempDir()
	l, _ := openLog(t, dir, 300)
	broken := l.dir
	l.dir = filepath.Join(dir, "missing")
	for i := range 10 {
		if l.put(records(1+i, 1, 100)) == nil {
			t.Fatal("it is written nowhere")
		}
	}
	if l.dir = broken; l.persist() != nil || len(l.pending) != 0 {
		t.Errorf("%d are in memory", len(l.pending))
	}
	l.close()
	l, _ = openLog(t, dir, 300)
	if len(l.files) != 5 {
		t.Errorf("%d files", len(l.files))
	}
	if got := drain(l); !slices.Equal(got, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}) {
		t.Error(got)
	}
}

func newQueue(t *testing.T, dir string, maxSize int64) *queue {
	t.Helper()
	q, err := openQueue(dir, maxSize, nil, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.close() })
	return q
}

func (q *queue) all() string {
	var s []string
	for r := q.next(nil); r != nil; r = q.next(nil) {
		s = append(s, string(r.body))
		q.settle(r)
	}
	return strings.Join(s, " ")
}

func change(t *testing.T, q *queue, names ...string) dropped {
	t.Helper()
	return put(t, q, q.changes, names)
}

func pull(t *testing.T, q *queue, names ...string) dropped {
	t.Helper()
	return put(t, q, q.pulls, names)
}

func put(t *testing.T, q *queue, to *eventLog, names []string) (all dropped) {
	t.Helper()
	for _, n := range names {
		d := q.add(to, []record{{time: time.Now(), body: []byte(n)}})
		all.changes += d.changes
		all.pulls += d.pulls
	}
	if err := to.persist(); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestQueueKeepsTheOrder(t *testing.T) {
	dir := t.TempDir()
	q := newQueue(t, dir, 1<<20)
	change(t, q, "c1")
	pull(t, q, "p1", "p2")
	change(t, q, "c2", "c3")
	q.close()
	q = newQueue(t, dir, 1<<20)
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
			dir := ""
			if kind == "disk" {
				dir = t.TempDir()
			}
			q := newQueue(t, dir, size*room)
			name := func(s string, i int) string { return fmt.Sprintf("%s%03d", s, i) + strings.Repeat(".", 996) }
			var d dropped
			for i := range 2 * room {
				p := pull(t, q, name("p", i))
				d.pulls += p.pulls
				d.changes += p.changes
			}
			b := q.backlog()
			if b.pulls+d.pulls != 2*room || b.pulls < room*3/4 || b.bytes > q.max || d.changes != 0 {
				t.Fatalf("of pulls %+v are left, %+v dropped", b, d)
			}
			if r := q.next(nil); !bytes.HasPrefix(r.body, []byte(name("p", d.pulls))) {
				t.Errorf("the first is %.4s, so not the oldest were dropped", r.body)
			}
			for i := range room {
				change(t, q, name("c", i))
			}
			b = q.backlog()
			if b.changes != room || b.pulls != 0 {
				t.Fatalf("changes did not displace pulls: %+v", b)
			}
			d = pull(t, q, name("p", 999))
			if b := q.backlog(); b.changes != room || b.pulls != 0 || d != (dropped{pulls: 1}) {
				t.Fatalf("a pull displaced something: %+v, %+v", b, d)
			}
			d = change(t, q, name("c", room))
			b = q.backlog()
			if b.changes+d.changes != room+1 || d.changes == 0 || d.changes > room/4 {
				t.Fatalf("%+v, %+v", b, d)
			}
			if r := q.next(nil); !bytes.HasPrefix(r.body, []byte(name("c", d.changes))) {
				t.Errorf("the first is %.4s", r.body)
			}
		})
	}
}

// The event behind one that is refused is the next of all logs.
func TestNextExcept(t *testing.T) {
	q := newQueue(t, "", 1<<20)
	change(t, q, "c1")
	for _, step := range []struct {
		put  func(*testing.T, *queue, ...string) dropped
		name string
		want string
	}{{change, "c2", "c2"}, {pull, "p1", "c2"}, {change, "c3", "c2"}} {
		step.put(t, q, step.name)
		first := q.next(nil)
		if behind := q.next(first); string(first.body) != "c1" || string(behind.body) != step.want {
			t.Errorf("behind %s comes %s, want %s", first.body, behind.body, step.want)
		}
	}
	if got := q.all(); got != "c1 c2 p1 c3" {
		t.Error(got)
	}
	change(t, q, "c4")
	if behind := q.next(q.next(nil)); behind != nil {
		t.Errorf("%s is behind the last one", behind.body)
	}
}

// The queue of a dead process is sent from where it is, by age, beside the own one,
// and let go of once it is empty.
func TestAttach(t *testing.T) {
	dead, own := t.TempDir(), t.TempDir()
	q := newQueue(t, dead, 1<<20)
	change(t, q, "c1", "c2")
	pull(t, q, "p1")
	q.close()
	q = newQueue(t, own, 1) // full with one event
	change(t, q, "c3")
	if events, err := q.attach(dead, nil); events != 3 || err != nil {
		t.Fatal(events, err)
	}
	if b := q.backlog(); b.changes != 3 || b.pulls != 1 {
		t.Errorf("%+v", b)
	}
	if !q.detach(dead) {
		t.Error("it lets go of what waits")
	}
	if got := q.all(); got != "c1 c2 p1 c3" {
		t.Error(got)
	}
	if q.detach(dead) || len(q.logs) != 2 {
		t.Errorf("%d logs", len(q.logs))
	}
}

// What is being sent while it is dropped takes nothing else with it.
func TestSettleAfterDrop(t *testing.T) {
	q := newQueue(t, "", 1<<20)
	change(t, q, "a", "b")
	sending := q.next(nil)
	q.changes.pop()
	q.settle(sending)
	if q.waits(sending) || q.all() != "b" {
		t.Error("b is gone with a")
	}
}

func TestDrop(t *testing.T) {
	q := newQueue(t, "", 1<<20)
	change(t, q, "a")
	pull(t, q, "p")
	until := time.Now()
	change(t, q, "b")
	if n, rest := q.drop(until), q.all(); n != 2 || rest != "b" {
		t.Errorf("dropped %d, left %s", n, rest)
	}
}

func FuzzParseRecord(f *testing.F) {
	r := record{seq: 1, time: time.Unix(5, 6), body: []byte("{}")}
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
