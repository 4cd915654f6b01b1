package filesystem

import (
	"context"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"

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
		l := &listing{s: s, ctx: ctx, o: o, yield: yield, version: o.Version}
		err = l.dir(prefix, name)
		if err == nil || err == errStopped || isNotExist(err) && !s.vanished() { //nolint:errorlint // itself
			return
		}
		yield(storage.Info{}, s.readFault("list", prefix, err))
	}
}

// tempSuffix ends the names of files that distribution is writing.
const tempSuffix = ".tmp"

// errStopped ends a listing that the caller has left.
const errStopped = unix.ECANCELED

// listing is one call of List.
type listing struct {
	s     *Store
	ctx   context.Context //nolint:containedctx // of the call
	o     storage.ListOptions
	yield func(storage.Info, error) bool

	version *string // of the directory that is read next; nil = not needed
}

// dir yields the entries of the directory at name in the order of their keys, where those of
// directories end in a slash.
func (l *listing) dir(prefix, name string) error {
	fd, err := openDir(name)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if l.version != nil && l.s.local() && unix.Fstat(fd, &st) == nil {
		*l.version = version(&st)
	}
	l.version = nil
	f := os.NewFile(uintptr(fd), prefix)
	all, err := f.ReadDir(-1)
	f.Close()
	if err != nil {
		return err
	}
	names := make([]string, 0, len(all))
	for _, e := range all {
		kind := e.Type()
		if kind&fs.ModeSymlink != 0 {
			kind = fs.ModeIrregular
			if info, err := os.Stat(name + "/" + e.Name()); err == nil {
				kind = info.Mode().Type()
			}
		}
		switch {
		case !storage.ValidKey("/" + e.Name()):
		case kind.IsDir():
			names = append(names, e.Name()+"/")
		case kind.IsRegular() && !strings.HasSuffix(e.Name(), tempSuffix):
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	for _, e := range names {
		if err := l.ctx.Err(); err != nil {
			return err
		}
		if err := l.entry(prefix+"/"+e, name); err != nil {
			return err
		}
	}
	return nil
}

// entry yields an entry of the directory at name, or what is below it.
func (l *listing) entry(key, name string) error {
	dir, isPrefix := strings.CutSuffix(key, "/")
	path := func() string { return name + dir[strings.LastIndexByte(dir, '/'):] }
	if isPrefix && l.o.Flat {
		if key < l.o.After && !strings.HasPrefix(l.o.After, key) {
			return nil
		}
		return ignoreNotExist(l.dir(dir, path()))
	}
	if key <= l.o.After {
		return nil
	}
	info := storage.Info{Key: key, Prefix: isPrefix}
	if !isPrefix && !l.o.Names {
		var st unix.Stat_t
		if err := l.s.statFile(path(), &st); err != nil {
			return ignoreNotExist(err)
		}
		info = l.s.info(key, &st)
	}
	if !l.yield(info, nil) {
		return errStopped
	}
	return nil
}
