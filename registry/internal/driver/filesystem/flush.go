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
	crowd int  // turns for which more than one caller at a time is expected
}

func newFlusher() *flusher { return &flusher{} }

func (f *flusher) stop() { f.aio.stop() }

// crowdLasts is for how many turns after one that was shared others may be.
const crowdLasts = 16

// expect notes how many callers share this turn.
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

// run flushes them all; each has its own error. Where several callers come at a
// time they are handed to the kernel together, if it can take them.
func (f *flusher) run(all []flush) {
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
