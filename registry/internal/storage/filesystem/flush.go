package filesystem

import "slices"

// flush is one file, or one directory, to be flushed.
type flush struct {
	fd   int
	dir  string // its path, to be opened; or ""
	look bool   // id is asked for
	id   dirID  // of the directory that was flushed
	err  error

	// Of a directory, see committer.flushDirs:
	put    bool   // it got an entry
	queued bool   // it is going to be flushed
	gone   bool   // it is not there any more
	above  *flush // has to be flushed, too; or nil
}

// failure is why the entries of a directory may not outlive a power loss, or nil.
func (f *flush) failure() error {
	for ; f != nil; f = f.above {
		if f.err != nil {
			return f.err
		}
	}
	return nil
}

// durable says whether the directory is known to outlive a power loss.
func (f *flush) durable() bool {
	put := f.put
	for ; f != nil && !f.gone && f.err == nil; f = f.above {
	}
	return put && f == nil
}

// now flushes it in this thread.
func (f *flush) now() error {
	if f.dir == "" {
		return syncFile(f.fd)
	}
	return flushDir(f.fd)
}

// flusher flushes several files and directories at a time. One goroutine uses it.
type flusher struct {
	asked bool // the kernel, for aio: not before there is a crowd, because giving it back takes tens of milliseconds
	aio   *aio // nil where the kernel has none
	crowd int  // runs for which more than one caller at a time is expected
}

const (
	maxOpen    = 256 // directories at a time
	crowdLasts = 16  // for so many runs after one that was shared, others may be
)

// expect notes for how many callers the next flushes are.
func (f *flusher) expect(callers int) {
	if callers > 1 {
		f.crowd = crowdLasts
		if !f.asked {
			f.asked, f.aio = true, startAIO()
		}
	} else if f.crowd > 0 {
		f.crowd--
	}
}

// flush opens the directories and flushes all; each has its own error.
func (f *flusher) flush(all []*flush) {
	for some := range slices.Chunk(all, maxOpen) {
		open := make([]*flush, 0, len(some))
		for _, one := range some {
			if one.dir != "" {
				if one.fd, one.err = openDir(one.dir); one.err == nil && one.look {
					one.id = identify(one.fd)
				}
			}
			if one.err == nil {
				open = append(open, one)
			}
		}
		f.flushOpen(open)
		for _, one := range open {
			if one.dir == "" {
				continue
			}
			closeFD(one.fd)
			if unsupported(one.err) {
				one.err = nil
			}
		}
	}
}

// flushOpen hands them to the kernel together where several callers come at a
// time, if it can take them.
func (f *flusher) flushOpen(all []*flush) {
	if f.crowd > 0 && f.aio != nil && len(all) > 1 {
		f.aio.flush(all)
		return
	}
	for _, one := range all {
		if one.dir == "" && len(all) > 1 {
			one.err = startWriteBack(one.fd, 0, 0, false)
		}
	}
	for _, one := range all {
		if one.err == nil {
			one.err = one.now()
		}
	}
}
