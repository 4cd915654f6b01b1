package filesystem

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"iter"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

// List implements storage.Store.
func (s *Store) List(ctx context.Context, prefix string, o storage.ListOptions) iter.Seq2[storage.Info, error] {
	return func(yield func(storage.Info, error) bool) {
		name, err := s.abs("list", prefix)
		if err != nil {
			yield(storage.Info{}, err)
			return
		}
		l := &listing{s: s, ctx: ctx, o: o, yield: yield}
		err = l.dir(prefix, name)
		if err == nil || err == errStopped || isNotExist(err) && !s.vanished() { //nolint:errorlint // itself
			return
		}
		yield(storage.Info{}, s.readFault("list", prefix, err))
	}
}

// listing is one call of List.
type listing struct {
	s     *Store
	ctx   context.Context //nolint:containedctx // of the call
	o     storage.ListOptions
	yield func(storage.Info, error) bool
}

// errStopped says that nobody wants more.
const errStopped = unix.ECANCELED

// dir yields what is in the directory at name.
func (l *listing) dir(prefix, name string) error {
	fd, err := openDir(name)
	if err != nil {
		return err
	}
	all, err := readDir(fd)
	closeFD(fd)
	if err != nil {
		return err
	}
	entries := all[:0]
	for _, e := range all {
		if !validName(e.name) || !e.resolve(name) {
			continue
		}
		if e.kind == unix.DT_DIR || e.kind == unix.DT_REG && !strings.HasSuffix(e.name, tempSuffix) {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, compareKeys)
	for _, e := range entries {
		if err := l.ctx.Err(); err != nil {
			return err
		}
		if err := l.entry(prefix, name, e); err != nil {
			return err
		}
	}
	return nil
}

// entry yields an entry of the directory at dir, or what is below it.
func (l *listing) entry(prefix, dir string, e rawEntry) error {
	info := storage.Info{Prefix: e.kind == unix.DT_DIR}
	if info.Prefix {
		info.Key = prefix + "/" + e.name + "/"
	} else {
		info.Key = prefix + "/" + e.name
	}
	if info.Prefix && l.o.Flat {
		if info.Key < l.o.After && !strings.HasPrefix(l.o.After, info.Key) {
			return nil
		}
		return ignoreNotExist(l.dir(prefix+"/"+e.name, dir+"/"+e.name))
	}
	if info.Key <= l.o.After {
		return nil
	}
	if !info.Prefix && !l.o.Names {
		name := dir + "/" + e.name
		var st unix.Stat_t
		if err := stat(name, &st); err != nil || !isFile(&st) {
			return ignoreNotExist(err)
		}
		info = l.s.info(info.Key, name, &st)
		if !l.s.clock(name, device(&st)).local {
			info.Version = "" // see look
		}
	}
	if !l.yield(info, nil) {
		return errStopped
	}
	return nil
}

// validName says whether a key may have name as a component.
func validName(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', 'A' <= c && c <= 'Z', c == '_', c == '-', c == '.' && i > 0:
		default:
			return false
		}
	}
	return true
}

// compareKeys orders entries as the keys are that begin with them, where a
// directory's name ends in a slash.
func compareKeys(a, b rawEntry) int {
	if len(a.name) == len(b.name) {
		return strings.Compare(a.name, b.name) // no name stands twice
	}
	n := min(len(a.name), len(b.name))
	if c := strings.Compare(a.name[:n], b.name[:n]); c != 0 {
		return c
	}
	return cmp.Compare(a.byteAt(n), b.byteAt(n))
}

// byteAt is the byte of the name at n, which is at most its length.
func (e *rawEntry) byteAt(n int) int {
	switch {
	case n < len(e.name):
		return int(e.name[n])
	case e.kind == unix.DT_DIR:
		return '/'
	}
	return -1
}

// resolve finds out what an entry is where the directory does not tell, or
// tells that it is a symbolic link. It is false for one that leads nowhere.
func (e *rawEntry) resolve(dir string) bool {
	if e.kind != unix.DT_UNKNOWN && e.kind != unix.DT_LNK {
		return true
	}
	var st unix.Stat_t
	if stat(dir+"/"+e.name, &st) != nil {
		return false
	}
	switch {
	case isDir(&st):
		e.kind = unix.DT_DIR
	case isFile(&st):
		e.kind = unix.DT_REG
	}
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
