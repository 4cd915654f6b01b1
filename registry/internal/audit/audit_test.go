package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"slipway/shared/programtest"
)

func read(t *testing.T, paths ...string) (all []Record) {
	t.Helper()
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var r Record
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				t.Errorf("%s: %q: %v", path, lines.Text(), err)
			}
			all = append(all, r)
		}
	}
	return all
}

func openFile(t *testing.T, path string) *File {
	t.Helper()
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestLog_WritesEachLineOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := New(zap.NewNop(), openFile(t, path))
	var group sync.WaitGroup
	const each = 100
	for range 8 {
		group.Go(func() {
			for range each {
				l.Write(Record{Time: time.Now(), Event: "pull", Who: "alice\n\"", Status: 200})
			}
		})
	}
	group.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{path, path + readsSuffix} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	if n := len(read(t, path+readsSuffix)); n != 8*each {
		t.Errorf("%d lines, want %d", n, 8*each)
	}
}

// A file that logrotate has moved away, and one whose last line was cut off.
func TestFile_Reopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, []byte(`{"cut":`), 0o600); err != nil {
		t.Fatal(err)
	}
	f := openFile(t, path)
	write := func(line string) {
		if _, err := f.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	write("1\n")
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	write("2\n")
	f.Reopen()
	write("3\n")
	for name, want := range map[string]string{".old": "{\"cut\":\n1\n2\n", "": "3\n"} {
		if got, err := os.ReadFile(path + name); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// A file that root makes, on the command line or as a server, belongs to the owner of its
// directory; one that is there, or that a link names, is left as it is.
func TestFile_BelongsToTheOwnerOfItsDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		programtest.Skip(t, "only root gives files away")
	}
	const server = 65532
	dir := t.TempDir()
	there, elsewhere := filepath.Join(dir, "there.log"), filepath.Join(t.TempDir(), "elsewhere.log")
	err := errors.Join(os.Chown(dir, server, server), os.WriteFile(there, nil, 0o600), os.Symlink(elsewhere, filepath.Join(dir, "link.log")))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]uint32{"new.log": server, "there.log": 0, "link.log": 0} {
		openFile(t, filepath.Join(dir, name)).Close()
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Sys().(*syscall.Stat_t).Uid; got != want {
			t.Errorf("%s belongs to uid %d, want %d", name, got, want)
		}
	}
}

// Root follows no link that the owner of the directory may have laid to a file of root, whether
// that is there or not.
func TestFile_RootFollowsNoLinkOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		programtest.Skip(t, "only root has links of others")
	}
	dir, path := t.TempDir(), filepath.Join(t.TempDir(), "audit.log")
	for target, content := range map[string]string{"passwd": "root:x:0\n", "new": ""} {
		target = filepath.Join(dir, target)
		if content != "" {
			if err := os.WriteFile(target, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(os.Symlink(target, path), os.Lchown(path, 65532, 65532)); err != nil {
			t.Fatal(err)
		}
		f, err := OpenFile(path)
		if err == nil || !strings.Contains(err.Error(), path+" is a symbolic link of user 65532") {
			t.Errorf("got %v", err)
		}
		if _, err := f.Write([]byte("line\n")); err == nil {
			t.Error("a line was written")
		}
		if got, err := os.ReadFile(target); string(got) != content || content == "" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %q, %v", target, got, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// stuck is a sink that fails, or takes nothing, until it is told otherwise.
type stuck struct {
	mu    sync.Mutex
	err   error
	block chan struct{}
	out   strings.Builder
}

func (s *stuck) Write(b []byte) (int, error) {
	<-s.block
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	return s.out.Write(b)
}

func (s *stuck) Close() error { return nil }

func TestLog_SaysWhatIsLost(t *testing.T) {
	sink := &stuck{err: errors.New("disk full"), block: make(chan struct{})}
	close(sink.block)
	l := New(zap.NewNop(), sink)
	for range 3 {
		l.Write(Record{Event: "pull"})
	}
	for l.Lost() < 3 {
		time.Sleep(time.Millisecond)
	}
	sink.mu.Lock()
	sink.err = nil
	sink.mu.Unlock()
	l.Write(Record{Event: "push"})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if n := l.Lost(); n != 3 {
		t.Errorf("%d lines are counted as lost", n)
	}
	if got := sink.out.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, `"event":"lost","lost":3}`) || !strings.Contains(got, `"event":"push"`) {
		t.Errorf("got %s", got)
	}
}

// A full disk keeps no line from standard output, and only the file lacks lines.
func TestLog_SinksFailAlone(t *testing.T) {
	full, other := &stuck{err: errors.New("disk full"), block: make(chan struct{})}, &stuck{block: make(chan struct{})}
	close(full.block)
	close(other.block)
	l := New(zap.NewNop(), full, other)
	for range 3 {
		l.Write(Record{Event: "push"})
	}
	for l.Lost() < 3 {
		time.Sleep(time.Millisecond)
	}
	full.mu.Lock()
	full.err = nil
	full.mu.Unlock()
	l.Write(Record{Event: "push"})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got := full.out.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, `"lost":3}`) {
		t.Errorf("the file has %s", got)
	}
	if got := other.out.String(); strings.Count(got, "\n") != 4 || strings.Contains(got, "lost") {
		t.Errorf("standard output has %s", got)
	}
}

// Pulls whose file can't be written add one line to that of the changes, however many they are.
func TestLog_LostPullsShareALine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	f := openFile(t, path)
	if err := errors.Join(os.Remove(path+readsSuffix), os.Mkdir(path+readsSuffix, 0o700)); err != nil {
		t.Fatal(err)
	}
	f.Reopen()
	l := New(zap.NewNop(), f)
	for range 100 {
		l.Write(Record{Time: time.Now(), Event: "pull"})
	}
	for l.Lost() < 100 {
		time.Sleep(time.Millisecond)
	}
	l.Write(Record{Time: time.Now(), Event: "push"})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got := read(t, path); len(got) != 2 || got[0].Lost != 100 || got[1].Event != "push" {
		t.Errorf("%+v", got)
	}
}

// A sink that takes nothing holds a request up for a bounded time.
func TestLog_WaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &stuck{block: make(chan struct{})}
		l := New(zap.NewNop(), sink)
		for range queueLength + 1 {
			l.Write(Record{Event: "pull"})
			synctest.Wait()
		}
		began := time.Now()
		l.Write(Record{Event: "pull"})
		if waited := time.Since(began); waited != maxWait {
			t.Errorf("a request waited for %v, want %v", waited, maxWait)
		}
		close(sink.block)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if got := sink.out.String(); strings.Count(got, `"event":"pull"`) != queueLength+1 || strings.Count(got, `"lost":1`) != 1 {
			t.Errorf("%d lines, %d reports of lost ones", strings.Count(got, "pull"), strings.Count(got, "lost"))
		}
	})
}

// What clients send, such as references that cannot exist, does not fill the log.
func TestLog_CutsLongFields(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := New(zap.NewNop(), openFile(t, path))
	long := strings.Repeat("<", 128<<10)
	l.Write(Record{Time: time.Now(), Event: "refused", Who: long, Repository: long, Reference: long})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	got := read(t, path+readsSuffix)
	if want := long[:maxField] + "…"; len(got) != 1 || got[0].Who != want || got[0].Repository != want || got[0].Reference != want {
		t.Errorf("%+v", got)
	}
}

// Whatever a client sends, a line has a few KiB.
func TestEncode_BoundsLines(t *testing.T) {
	for _, c := range []string{"<", "\"", "\x00", "\xff", "\u2028", "é", "\u202e"} {
		long := strings.Repeat(c, 16<<10)
		r := Record{Event: "refused", Who: long, Claimed: long, From: long, Method: long, Repository: long, Reference: long, Digest: long, Reason: long, RequestID: long, Change: long, Moved: map[string]string{}}
		for i := range 500 {
			r.Moved[fmt.Sprint(i)+long] = long
		}
		if n, limit := len(encode(r)), 120<<10; n > limit {
			t.Errorf("%q: %d bytes", c, n)
		}
		if r.Moved, r.Change = nil, ""; len(encode(r)) > 6<<10 {
			t.Errorf("%q: a refusal has %d bytes", c, len(encode(r)))
		}
	}
}

// Requests that are refused and pulls have no place in the file of changes, so that a rotation by size
// keeps the lines of administrators, and refusals of one address share lines.
func TestLog_RefusalsAndPullsDropNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "audit.log")
		l := New(zap.NewNop(), openFile(t, path))
		now := time.Now()
		l.Write(Record{Time: now, Event: "robot created", Who: "alice", Reference: "ci"})
		long := strings.Repeat("x", 8<<10)
		const each = 5000
		for i := range each {
			l.Write(Record{Time: now, Event: "refused", Claimed: "guess", From: fmt.Sprintf("192.0.2.1:%d", i+1), Reference: long, Reason: "wrong password"})
			l.Write(Record{Time: now, Event: "pull", Who: "anonymous", From: "192.0.2.2:1", Reference: "v1"})
			if i%100 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		time.Sleep(2 * foldTime)
		for i := range each { // from everywhere
			l.Write(Record{Time: time.Now(), Event: "refused", From: fmt.Sprintf("[2001:db8:%x::1]:1", i), Reason: "no"})
			if i%100 == 0 {
				synctest.Wait()
			}
		}
		if len(l.fold.byFrom) > maxFolded+1 {
			t.Errorf("%d addresses are remembered", len(l.fold.byFrom))
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if got := read(t, path); len(got) != 1 || got[0].Event != "robot created" {
			t.Errorf("the file of changes: %+v", got)
		}
		refused := 0
		for _, r := range read(t, path+readsSuffix) {
			if r.Event == "refused" {
				refused++
			}
		}
		if refused >= 2*each {
			t.Errorf("%d lines of refusals", refused)
		}
	})
}

func TestFold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &bytes.Buffer{}
		l := New(zap.NewNop(), Unclosed{sink})
		const each = 5000
		for range each {
			l.Write(Record{Time: time.Now(), Event: "refused", From: "192.0.2.1:1", Who: "anonymous", Claimed: "robot:ci", Reason: "wrong password", Status: 401})
		}
		l.Write(Record{Time: time.Now(), Event: "refused", From: "192.0.2.2:1"})
		time.Sleep(foldTime + foldTick)
		synctest.Wait()
		lines := strings.Count(sink.String(), "\n")
		if want := fmt.Sprintf(`"event":"refused","who":"anonymous","claimed":"robot:ci","from":"192.0.2.1","status":401,"reason":"wrong password","count":%d}`, each-freeRefusals); lines != freeRefusals+2 || !strings.Contains(sink.String(), want) {
			t.Errorf("%d lines, want %d and %s in\n%s", lines, freeRefusals+2, want, sink)
		}
		for range freeRefusals + 1 {
			l.Write(Record{Time: time.Now(), Event: "refused", From: "192.0.2.1:1"})
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if more := strings.Count(sink.String(), "\n") - lines; more != freeRefusals+1 || !strings.Contains(sink.String(), `"count":1}`) {
			t.Errorf("at the end: %d more lines\n%s", more, sink)
		}
	})
}

// A line that stands for several callers names none of them.
func TestFold_NamesNoOneForOthers(t *testing.T) {
	var f fold
	take := func(who, claimed, reason string, status int) {
		f.take(Record{Event: "refused", From: "192.0.2.1:1", Who: who, Claimed: claimed, Reason: reason, Status: status})
	}
	for range freeRefusals {
		take("alice", "", "denied", 403)
	}
	take("anonymous", "root", "wrong password", 401)
	take("anonymous", "admin", "wrong password", 401)
	take("anonymous", "root", "wrong password", 401)
	lines := f.due(time.Now(), true)
	if len(lines) != 1 || lines[0].Count != 3 || lines[0].Claimed != "" || lines[0].Who != "anonymous" || lines[0].Reason != "wrong password" || lines[0].Status != 401 {
		t.Errorf("%+v", lines)
	}
	for range freeRefusals {
		take("alice", "", "denied", 403)
	}
	take("anonymous", "root", "wrong password", 401)
	take("bob", "", "denied", 403)
	lines = f.due(time.Now(), true)
	if len(lines) != 1 || lines[0].Count != 2 || lines[0].Who+lines[0].Claimed+lines[0].Reason != "" || lines[0].Status != 0 || lines[0].From != "192.0.2.1" {
		t.Errorf("%+v", lines)
	}
}

// What clients send isn't held until the line is due: from many addresses, it would fill the memory.
func TestFold_HoldsLittle(t *testing.T) {
	var f fold
	long := strings.Repeat("x", 1<<20)
	for range freeRefusals + 1 {
		f.take(Record{Event: "refused", From: "192.0.2.1:1", Claimed: long, Repository: long, Reference: long, Reason: long})
	}
	if lines := f.due(time.Now(), true); len(lines) != 1 || len(encode(lines[0])) > 4<<10 || len(lines[0].Repository)+len(lines[0].Reference) > 0 || len(lines[0].Claimed) > 2*maxField || len(lines[0].Reason) > 2*maxField {
		t.Errorf("%d lines hold too much", len(lines))
	}
}

func TestNilLog(t *testing.T) {
	var l *Log
	l.Write(Record{})
	l.Reopen()
	if err := l.Close(); err != nil || l.Lost() != 0 {
		t.Error(err)
	}
}
