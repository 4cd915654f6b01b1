package filesystem

// flush is one file or directory to be flushed.
type flush struct {
	fd  int
	dir bool
	err error
}

// now flushes it in this thread.
func (f *flush) now() error {
	if !f.dir {
		return syncFile(f.fd)
	}
	return flushDir(f.fd)
}

// flusher flushes many at a time. One goroutine uses it.
type flusher struct {
	asked bool // the kernel, for aio: not before there is a crowd, because giving it back takes tens of milliseconds
	aio   *aio // nil where the kernel has none
	crowd int  // runs for which more than one caller at a time is expected
}

func newFlusher() *flusher { return &flusher{} }

func (f *flusher) stop() { f.aio.stop() }

// crowdLasts is for how many runs after one that was shared others may be.
const crowdLasts = 16

// expect notes how many share the next run.
func (f *flusher) expect(n int) {
	if n > 1 {
		f.crowd = crowdLasts
		if !f.asked {
			f.asked, f.aio = true, startAIO()
		}
	} else if f.crowd > 0 {
		f.crowd--
	}
}

// run flushes them all; each has its own error. Where several callers come at a
// time they are handed to the kernel together, if it can take them.
func (f *flusher) run(all []flush) {
	if len(all) > crowdLasts {
		f.expect(len(all))
	}
	if f.crowd > 0 && f.aio != nil && len(all) > 1 {
		f.aio.flush(all)
		return
	}
	for i := range all {
		if one := &all[i]; !one.dir && len(all) > 1 {
			one.err = startWriteBack(one.fd, 0, 0, false)
		}
	}
	for i := range all {
		if one := &all[i]; one.err == nil {
			one.err = one.now()
		}
	}
}

// maxOpen is how many directories are open at a time to be flushed.
const maxOpen = 256

// flushAll flushes the directories that are the keys of dirs, by run, and notes
// the errors there.
func flushAll(dirs map[string]error, run func([]flush)) {
	names, open := make([]string, 0, min(len(dirs), maxOpen)), make([]flush, 0, min(len(dirs), maxOpen))
	flushOpen := func() {
		run(open)
		for i, f := range open {
			closeFD(f.fd)
			if !unsupported(f.err) {
				dirs[names[i]] = f.err
			}
		}
		names, open = names[:0], open[:0]
	}
	for dir := range dirs {
		fd, err := openDir(dir)
		if err != nil {
			dirs[dir] = err
			continue
		}
		names, open = append(names, dir), append(open, flush{fd: fd, dir: true})
		if len(open) == maxOpen {
			flushOpen()
		}
	}
	flushOpen()
}
