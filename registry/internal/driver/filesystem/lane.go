package filesystem

// maxLane bounds how many files are flushed together.
const maxLane = 64

// lane is the one goroutine that flushes files which small ones should not wait
// for, and which need not keep a thread each waiting either: those that come
// while it flushes are flushed together next. An upload is written back while it
// arrives, so what is left to flush of the largest is a few windows.
type lane struct {
	flusher *flusher
	in      chan *waiting
	stopped chan struct{}
}

// waiting is a flush that somebody waits for.
type waiting struct {
	fd   int
	err  error
	done chan struct{}
}

func startLane() *lane {
	l := &lane{flusher: newFlusher(), in: make(chan *waiting, maxLane), stopped: make(chan struct{})}
	go l.loop()
	return l
}

// stop ends the goroutine when it has done all that was asked for.
func (l *lane) stop() {
	close(l.in)
	<-l.stopped
	l.flusher.stop()
}

// flush returns when the file is flushed.
func (l *lane) flush(fd int) error {
	w := &waiting{fd: fd, done: make(chan struct{})}
	l.in <- w
	<-w.done
	return w.err
}

func (l *lane) loop() {
	defer close(l.stopped)
	for first := range l.in {
		turn := l.gather([]*waiting{first})
		all := make([]flush, len(turn))
		for i, w := range turn {
			all[i].fd = w.fd
		}
		l.flusher.expect(len(turn))
		l.flusher.run(all)
		for i, w := range turn {
			w.err = all[i].err
			close(w.done)
		}
	}
}

// gather adds those that wait.
func (l *lane) gather(turn []*waiting) []*waiting {
	for len(turn) < maxLane {
		select {
		case w, ok := <-l.in:
			if !ok {
				return turn
			}
			turn = append(turn, w)
		default:
			return turn
		}
	}
	return turn
}
