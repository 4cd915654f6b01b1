package filesystem

// flush is one file or directory to be flushed.
type flush struct {
	fd  int
	dir bool
	err error
}

// runFlushes flushes them all; each has its own error. Where several commits come
// at a time they are handed to the kernel together, if it can take them.
func (d *Driver) runFlushes(all []flush, several bool) {
	if several && d.aio != nil && len(all) > 1 {
		d.aio.flush(all)
		return
	}
	for i := range all {
		if f := &all[i]; !f.dir && len(all) > 1 {
			f.err = startWriteBack(f.fd, 0, 0, false)
		}
	}
	for i := range all {
		if f := &all[i]; f.err == nil {
			f.err = f.now()
		}
	}
}

// now flushes it in this thread.
func (f *flush) now() error {
	if !f.dir {
		return syncFile(f.fd)
	}
	return flushDir(f.fd)
}
