package filesystem

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"iter"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/driver"
)

// List implements driver.Driver.
func (d *Driver) List(_ context.Context, dir, after string) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		entries, err := d.entries(dir, after)
		if err != nil {
			yield(driver.Entry{}, err)
			return
		}
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (d *Driver) entries(dir, after string) ([]driver.Entry, error) {
	name, err := d.abs("list", dir)
	if err != nil {
		return nil, err
	}
	fd, err := open(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, d.readFault("list", dir, err)
	}
	defer closeFD(fd)
	all, err := readDir(fd)
	if err != nil {
		return nil, d.readFault("list", dir, err)
	}
	entries := make([]driver.Entry, 0, len(all))
	for _, raw := range all {
		e := driver.Entry{Name: raw.name, Dir: raw.kind == unix.DT_DIR}
		if e.Name <= after || !resolve(name, raw.kind, &e) || e.Temporary() {
			continue
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b driver.Entry) int { return cmp.Compare(a.Name, b.Name) })
	return entries, nil
}

// resolve finds out what an entry is where the directory does not tell, or
// tells that it is a symbolic link. It is false for one that leads nowhere.
func resolve(dir string, kind byte, e *driver.Entry) bool {
	if kind != unix.DT_UNKNOWN && kind != unix.DT_LNK {
		return true
	}
	var st unix.Stat_t
	if stat(dir+"/"+e.Name, &st) != nil {
		return false
	}
	e.Dir = isDir(&st)
	return true
}

type rawEntry struct {
	name string
	kind byte // DT_…
}

var direntBuffers = sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}

// readDir reads a directory as it lies. All names share one string, so that a
// directory of many entries costs few allocations.
func readDir(fd int) ([]rawEntry, error) {
	buf := *direntBuffers.Get().(*[]byte)
	defer direntBuffers.Put(&buf)
	var names []byte
	var ends []int
	var kinds []byte
	for {
		var n int
		err := retry(func() (err error) { n, err = unix.ReadDirent(fd, buf); return err })
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return split(string(names), ends, kinds), nil
		}
		for b := buf[:n]; len(b) > 0; {
			var name []byte
			var kind byte
			name, kind, b = nextDirent(b)
			if string(name) != "." && string(name) != ".." {
				names = append(names, name...)
				ends = append(ends, len(names))
				kinds = append(kinds, kind)
			}
		}
	}
}

// nextDirent takes one entry off b.
func nextDirent(b []byte) (name []byte, kind byte, rest []byte) {
	size := binary.NativeEndian.Uint16(b[direntSize:])
	name = b[direntName:size]
	if end := bytes.IndexByte(name, 0); end >= 0 {
		name = name[:end]
	}
	return name, b[direntType], b[size:]
}

func split(names string, ends []int, kinds []byte) []rawEntry {
	entries := make([]rawEntry, len(ends))
	start := 0
	for i, end := range ends {
		entries[i] = rawEntry{names[start:end], kinds[i]}
		start = end
	}
	return entries
}
