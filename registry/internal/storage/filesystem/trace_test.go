package filesystem

import (
	"os"
	"os/exec"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"slipway/shared/programtest"
)

// These tests run the test binary under strace, because only the order of its system calls
// shows whether bytes would outlive a power loss.

// strace runs the scenario (see scenarios) in a process of its own, on root.
func strace(t *testing.T, scenario, root string, args ...string) []call {
	out := path.Join(t.TempDir(), "trace")
	args = append([]string{"-f", "-y", "-v", "-o", out, "-s", "0"}, args...)
	args = append(args, os.Args[0], "-test.run=^TestScenario$")
	cmd := exec.Command(programtest.Tool(t, "strace"), args...)
	cmd.Env = append(os.Environ(), "SCENARIO="+scenario, "SCENARIO_ROOT="+root, "GORACE=atexit_sleep_ms=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("strace %v: %v\n%s", args, err, output)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return calls(strings.Split(string(b), "\n"))
}

// call is a system call; begun and its place in a trace are numbers of lines.
type call struct {
	text  string
	begun int
}

// calls puts together what strace tears apart when threads overlap. A call has
// the place where it ended.
func calls(lines []string) []call {
	calls := make([]call, len(lines))
	open := map[string]call{} // by thread
	for i, line := range lines {
		thread, text, _ := strings.Cut(line, " ")
		text = strings.TrimSpace(text)
		if before, ok := strings.CutSuffix(text, "<unfinished ...>"); ok {
			open[thread] = call{before, i}
		} else if _, after, ok := strings.Cut(text, " resumed>"); ok && strings.HasPrefix(text, "<... ") {
			calls[i] = call{open[thread].text + after, open[thread].begun}
		} else {
			calls[i] = call{text, i}
		}
	}
	return calls
}

const traced = "trace=write,copy_file_range,fdatasync,fsync,syncfs,renameat,renameat2,mkdirat,newfstatat"

// disk is the content that is known to be durable: a model of the weakest file system, on
// which a name is durable only when its directory was flushed, and bytes only
// when the file was.
type disk struct {
	t        *testing.T
	root     string
	clock    int
	written  map[string]int // files: last write
	named    map[string]int // files and directories: when they got the name
	flushed  map[string]int // both: begin of the last flush
	visible  []string       // in the order of their appearance
	finished map[string]bool
}

func newDisk(t *testing.T, root string) *disk {
	return &disk{
		t: t, root: root, written: map[string]int{}, named: map[string]int{}, flushed: map[string]int{},
		finished: map[string]bool{},
	}
}

// replay takes the calls of a trace in the order in which they ended. A flush
// counts for what was done before it began.
func (d *disk) replay(trace []call) {
	for i, c := range trace {
		d.clock = i + 1
		d.apply(c.text, c.begun+1)
	}
}

var (
	fdCall    = regexp.MustCompile(`^(write|fdatasync|fsync)\(\d+<([^>]*)>.*= \d+$`)
	copied    = regexp.MustCompile(`^copy_file_range\(\d+<[^>]*>, NULL, \d+<([^>]*)>.*= [1-9]\d*$`)
	nameCalls = regexp.MustCompile(`^(renameat2?|mkdirat)\((.*)\) += 0$`)
	names     = regexp.MustCompile(`"([^"]*)"`)
	mark      = regexp.MustCompile(`"/mark/(begin|end)(/[^"]*)"`)
)

func (d *disk) apply(call string, start int) {
	if m := mark.FindStringSubmatch(call); m != nil {
		d.mark(m[1], m[2])
		return
	}
	if m := fdCall.FindStringSubmatch(call); m != nil {
		if m[1] == "write" {
			d.written[m[2]] = d.clock
		} else {
			d.flushed[m[2]] = start
		}
		return
	}
	if m := copied.FindStringSubmatch(call); m != nil {
		d.written[m[1]] = d.clock
		return
	}
	m := nameCalls.FindStringSubmatch(call)
	if m == nil {
		return
	}
	paths := names.FindAllStringSubmatch(m[2], -1)
	to := paths[len(paths)-1][1]
	d.named[to] = d.clock
	if m[1] == "mkdirat" {
		return
	}
	from := paths[0][1]
	d.written[to], d.flushed[to] = d.written[from], d.flushed[from]
	if !d.private(to) {
		d.appeared(to)
	}
}

func (d *disk) private(name string) bool {
	return strings.HasPrefix(name, d.root+"/.staging") || strings.Contains(name, "/_uploads/")
}

// appeared checks that a file that got its name in the tree has its bytes on
// the disk, and that the stage before is there with its name.
func (d *disk) appeared(name string) {
	if d.written[name] > d.flushed[name] {
		d.t.Errorf("%s gets its name before its bytes are flushed", name)
	}
	d.visible = append(d.visible, name)
	if dir, ok := strings.CutSuffix(name, "/second/link"); ok {
		d.durable(dir+"/first/link", "when the second stage becomes visible")
	}
}

func (d *disk) mark(what, name string) {
	if what == "end" {
		d.durable(d.root+name, "when Apply has returned")
		d.finished[name] = true
	}
}

// durable checks that name would be found after a power loss now.
func (d *disk) durable(name, when string) {
	if d.written[name] > d.flushed[name] {
		d.t.Errorf("the bytes of %s are not flushed %s", name, when)
	}
	for ; name != d.root; name = path.Dir(name) {
		if d.named[name] > d.flushed[path.Dir(name)] {
			d.t.Errorf("the name of %s is not flushed %s", name, when)
		}
	}
}

func TestOrderOfSystemCalls(t *testing.T) {
	for _, scenario := range []string{"one", "many"} {
		for name, args := range map[string][]string{"local": nil, "NFS": {"-e", "inject=renameat2:error=EINVAL"}} {
			t.Run(scenario+" "+name, func(t *testing.T) {
				root := t.TempDir()
				d := newDisk(t, root)
				trace := strace(t, scenario, root, append(args, "-e", traced)...)
				d.replay(trace)
				if len(d.finished) == 0 || len(d.visible) != len(d.finished) {
					t.Errorf("%d lines of trace show %d calls and %d new names", len(trace), len(d.finished), len(d.visible))
				}
			})
		}
	}
}

// A file whose date only its owner may set is renewed by a copy, which is as durable as any other file.
func TestOrderOfSystemCalls_CopyOfAnothersFile(t *testing.T) {
	root := t.TempDir()
	d := newDisk(t, root)
	d.replay(strace(t, "renewed", root, "-e", traced+",utimensat", "-e", "inject=utimensat:error=EPERM"))
	if content, err := os.ReadFile(root + "/a/link"); err != nil || string(content) != "content" || len(d.visible) != 2 || d.written[root+"/a/link"] == 0 {
		t.Errorf("the copy has %q, %v; visible: %q", content, err, d.visible)
	}
}

// TestFilesAreFlushedTogether checks that a small upload and the links to it are all on their way
// to the disk before the first is waited for.
func TestFilesAreFlushedTogether(t *testing.T) {
	waiting := 0
	for _, c := range strace(t, "one", t.TempDir(), "-e", "trace=sync_file_range,fdatasync") {
		if strings.HasPrefix(c.text, "fdatasync") {
			break
		}
		if strings.HasPrefix(c.text, "sync_file_range") {
			waiting++
		}
	}
	if waiting != 3 {
		t.Errorf("%d files are on their way before the first flush, want 3", waiting)
	}
}

// TestBigUploadIsWrittenBackMeanwhile checks that a big upload never has more
// than so much on its way to the disk.
func TestBigUploadIsWrittenBackMeanwhile(t *testing.T) {
	written, arrived, calls := 0, 0, 0
	for _, c := range strace(t, "big", t.TempDir(), "-e", "trace=write,sync_file_range") {
		var offset, size int
		if m := regexp.MustCompile(`write\(\d+<.*/data>.* = (\d+)$`).FindStringSubmatch(c.text); m != nil {
			n, _ := strconv.Atoi(m[1])
			written += n
		} else if m := regexp.MustCompile(`sync_file_range\(\d+<[^>]*>, (\d+), (\d+), (.*)\)`).FindStringSubmatch(c.text); m != nil {
			calls++
			offset, _ = strconv.Atoi(m[1])
			size, _ = strconv.Atoi(m[2])
			if strings.Contains(m[3], "WAIT_AFTER") && offset <= arrived {
				arrived = max(arrived, offset+size)
			}
		}
		if written-arrived > ahead+window {
			t.Fatalf("%d bytes are written, %d have arrived", written, arrived)
		}
	}
	if written != bigSize || calls < 8 {
		t.Errorf("the trace shows %d bytes and %d calls", written, calls)
	}
}

// TestOrderIsChecked checks the checker: each of these orders loses something.
func TestOrderIsChecked(t *testing.T) {
	good := []string{
		`1 mkdirat(AT_FDCWD, "/r/a", 0777) = 0`,
		`1 write(3</r/.staging/1.tmp>, ""..., 4) = 4`,
		`1 fdatasync(3</r/.staging/1.tmp>) = 0`,
		`1 renameat(AT_FDCWD, "/r/.staging/1.tmp", AT_FDCWD, "/r/a/link") = 0`,
		`1 fsync(4</r/a> <unfinished ...>`,
		`2 fsync(5</r>) = 0`,
		`1 <... fsync resumed>) = 0`,
		`1 newfstatat(AT_FDCWD, "/mark/end/a/link", 0x0, 0) = -1 ENOENT (No such file or directory)`,
	}
	check := func(trace []string) bool {
		inner := &testing.T{}
		newDisk(inner, "/r").replay(calls(trace))
		return !inner.Failed()
	}
	if !check(good) {
		t.Error("a good order is refused")
	}
	for i, what := range map[int]string{2: "fdatasync", 6: "fsync of the directory", 5: "fsync of the parent"} {
		bad := append(append([]string{}, good[:i]...), good[i+1:]...)
		if check(bad) {
			t.Errorf("without the %s all is well", what)
		}
	}
	late := append([]string{good[4]}, good...) // the flush begins before the entry
	if check(append(late[:5:5], late[6:]...)) {
		t.Error("a flush counts for what came after its begin")
	}
}
