package filesystem

// maxLane bounds how many callers share a run.
const maxLane = 64

// lane is the one goroutine that flushes what small files should not wait for, and
// what need not keep a thread each waiting either: those that come while it
// flushes are flushed together next. An upload is written back while it arrives,
// so what is left to flush of the largest is a few windows.
type lane struct {
	flusher *flusher
	in      chan *flushing
	stopped chan struct{}
}

// flushing is what one caller waits for.
type flushing struct {
	all  []flush
	done chan struct{}
}

func startLane() *lane {
	l := &lane{flusher: newFlusher(), in: make(chan *flushing, maxLane), stopped: make(chan struct{})}
	go l.loop()
	return l
}

// stop ends the goroutine when it has done all that was asked for.
func (l *lane) stop() {
	close(l.in)
	<-l.stopped
	l.flusher.stop()
}

// run returns when all are flushed.
func (l *lane) run(all []flush) {
	if len(all) == 0 {
		return
	}
	f := &flushing{all: all, done: make(chan struct{})}
	l.in <- f
	<-f.done
}

// flush returns when it is flushed.
func (l *lane) flush(one flush) error {
	all := []flush{one}
	l.run(all)
	return all[0].err
}

func (l *lane) loop() {
	defer close(l.stopped)
	for first := range l.in {
		callers := l.gather([]*flushing{first})
		l.flusher.expect(len(callers))
		var all []flush
		for _, f := range callers {
			all = append(all, f.all...)
		}
		l.flusher.run(all)
		for _, f := range callers {
			copy(f.all, all)
			all = all[len(f.all):]
			close(f.done)
		}
	}
}

// gather adds those that wait.
func (l *lane) gather(callers []*flushing) []*flushing {
	for len(callers) < maxLane {
		select {
		case f, ok := <-l.in:
			if !ok {
				return callers
			}
			callers = append(callers, f)
		default:
			return callers
		}
	}
	return callers
}
