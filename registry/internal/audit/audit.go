// Package audit writes the audit log, one line of JSON per action, to a file or standard
// output. A request waits a bounded time for its line; lost lines are counted in the log
// itself.
package audit

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"slipway/shared/plural"
)

const (
	queueLength = 4096

	// maxWait is the longest time that an action waits for room in the queue before its line is lost.
	maxWait = 2 * time.Second
)

// errSlow is the cause of a lost line that no sink has refused.
var errSlow = errors.New("the queue was full")

// Log writes records. The nil *Log writes nothing.
type Log struct {
	sinks  []*sink
	log    *zap.Logger
	acts   chan []byte   // lines of changes and logins, which go first
	reads  chan []byte   // lines of pulls and refusals
	ending chan struct{} // closed by Close
	fold   fold
	lost   atomic.Uint64 // that no sink has got to count yet
	total  atomic.Uint64 // lost since the start
	done   sync.WaitGroup
	cause  error // of the last line that was lost; valid once done
}

// sink is a place that lines go to.
type sink struct {
	io.WriteCloser
	lost uint64 // lines that it lacks and that no line in it has counted yet
}

// New starts a log that writes each line to all of the sinks, which it closes at its
// end.
func New(log *zap.Logger, sinks ...io.WriteCloser) *Log {
	l := &Log{log: log, acts: make(chan []byte, queueLength), reads: make(chan []byte, queueLength), ending: make(chan struct{})}
	for _, to := range sinks {
		l.sinks = append(l.sinks, &sink{WriteCloser: to})
	}
	l.done.Go(l.write)
	return l
}

// Write queues a record. If the queue is full it waits for a bounded time; then the
// line counts as lost. Refusals of one address are counted when they are many.
func (l *Log) Write(r Record) {
	if l == nil {
		return
	}
	if r.Event == "refused" && !l.fold.take(r) {
		return
	}
	queue := l.acts
	if r.reads() {
		queue = l.reads
	}
	line := encode(r)
	select {
	case queue <- line:
		return
	default:
	}
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	select {
	case queue <- line:
	case <-l.ending:
		l.lose()
	case <-timer.C:
		l.lose()
	}
}

func (l *Log) lose() {
	l.lost.Add(1)
	l.total.Add(1)
}

// Lost returns the number of lines that were lost since the start.
func (l *Log) Lost() uint64 {
	if l == nil {
		return 0
	}
	return l.total.Load()
}

// entry is a line on its way to the sinks.
type entry struct {
	line  []byte
	reads bool
}

// next returns the next entry; ok is false at the end, when the queues are empty. Counted
// refusals come as entries, too.
func (l *Log) next(tick <-chan time.Time) (e []entry, ok bool) {
	select {
	case line := <-l.acts:
		return []entry{{line, false}}, true
	default:
	}
	select {
	case line := <-l.acts:
		return []entry{{line, false}}, true
	case line := <-l.reads:
		return []entry{{line, true}}, true
	case now := <-tick:
		return l.folded(now, false), true
	case <-l.ending:
	}
	select {
	case line := <-l.acts:
		return []entry{{line, false}}, true
	case line := <-l.reads:
		return []entry{{line, true}}, true
	default:
		e = l.folded(time.Now(), true)
		return e, len(e) > 0
	}
}

func (l *Log) folded(now time.Time, all bool) (entries []entry) {
	for _, r := range l.fold.due(now, all) {
		entries = append(entries, entry{encode(r), true})
	}
	return entries
}

func (l *Log) ended() bool {
	select {
	case <-l.ending:
		return true
	default:
		return false
	}
}

// write writes until Close is called and the queues are empty.
func (l *Log) write() {
	ticker := time.NewTicker(foldTick)
	defer ticker.Stop()
	failing := false
	for entries, ok := l.next(ticker.C); ok; entries, ok = l.next(ticker.C) {
		for _, e := range entries {
			err := l.writeEntry(e)
			if err != nil && !failing {
				l.log.Error("cannot write the audit log; the lines that are lost are counted", zap.Error(err))
			}
			failing = err != nil
		}
		if failing && l.ended() { // what is queued would fail alike, each after a while
			for rest, more := l.next(nil); more; rest, more = l.next(nil) {
				for range rest {
					l.lose()
				}
			}
			return
		}
	}
}

// writeEntry writes a line to each sink, whether or not others fail.
func (l *Log) writeEntry(e entry) (err error) {
	lost := l.lost.Swap(0)
	for _, s := range l.sinks {
		s.lost += lost
		err = errors.Join(err, s.write(e))
	}
	if err != nil {
		l.cause = err
		l.total.Add(1)
	}
	return err
}

// write writes a line, and before it the number of those that the sink lacks.
func (s *sink) write(e entry) error {
	var to io.Writer = s.WriteCloser
	if f, ok := to.(*File); ok && e.reads {
		to = f.reads
	}
	var err error
	if s.lost > 0 {
		_, err = to.Write(encode(Record{Time: time.Now(), Event: "lost", Lost: s.lost}))
	}
	if err == nil {
		s.lost = 0
		_, err = to.Write(e.line)
	}
	if err != nil {
		s.lost++
	}
	return err
}

// Reopen opens the files again after another program has moved them away.
func (l *Log) Reopen() {
	if l == nil {
		return
	}
	for _, s := range l.sinks {
		if f, ok := s.WriteCloser.(*File); ok {
			f.Reopen()
		}
	}
}

// Close writes what is queued. What requests write afterwards that were cut off is left
// out.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	close(l.ending)
	l.done.Wait()
	var first error
	lost := l.lost.Load()
	for _, s := range l.sinks {
		lost = max(lost, l.lost.Load()+s.lost)
	}
	if lost > 0 {
		first = fmt.Errorf("lost %s of the audit log: %w", plural.Of(lost, "line"), cmp.Or(l.cause, errSlow))
	}
	for _, s := range l.sinks {
		if err := s.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}
