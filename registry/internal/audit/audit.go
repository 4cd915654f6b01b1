// Package audit writes who did what, a line of JSON for each act, to a file, standard
// output or syslog. A request waits for it within bounds, and no line is lost silently.
package audit

import (
	"cmp"
	"encoding/json"
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

	// maxField bounds what a client has sent, in bytes: the reference in the path of a
	// request that is refused can be as long as its head.
	maxField = 512

	// maxWait is how long an act waits for room in the queue before its line is lost.
	maxWait = 2 * time.Second
)

// Record is one line.
type Record struct {
	Time       time.Time         `json:"time"`
	Event      string            `json:"event"` // login, refused, pull, push, mount, delete, robot created, robot revoked, maintenance, reload, lost
	Who        string            `json:"who,omitempty"`
	From       string            `json:"from,omitempty"` // the client's address
	Method     string            `json:"method,omitempty"`
	Repository string            `json:"repository,omitempty"`
	Reference  string            `json:"reference,omitempty"` // tag, digest, upload, robot, command or file
	Digest     string            `json:"digest,omitempty"`
	Moved      map[string]string `json:"moved,omitempty"` // tags that pointed at another manifest before: tag → digest
	Status     int               `json:"status,omitempty"`
	Reason     string            `json:"reason,omitempty"` // of a refusal
	Result     string            `json:"result,omitempty"` // of what no request asked for: Succeeded or Failed
	RequestID  string            `json:"request_id,omitempty"`
	Lost       uint64            `json:"lost,omitempty"` // lines that could not be written since the one before
}

// The results of a record.
const (
	Succeeded = "succeeded"
	Failed    = "failed"
)

// ResultOf is Failed for an error.
func ResultOf(err error) string {
	if err != nil {
		return Failed
	}
	return Succeeded
}

// errSlow is why a line is lost that no sink has refused.
var errSlow = errors.New("the queue was full")

// Log writes records. The nil *Log writes nothing.
type Log struct {
	sinks  []io.WriteCloser
	log    *zap.Logger
	lines  chan []byte
	ending chan struct{} // closed by Close
	lost   atomic.Uint64 // that no line has told yet
	total  atomic.Uint64 // lost since the start
	done   sync.WaitGroup
	cause  error // of the last line that was lost; valid once done
}

// New starts a log that writes each line to all of the sinks, which it closes at its
// end.
func New(log *zap.Logger, sinks ...io.WriteCloser) *Log {
	l := &Log{sinks: sinks, log: log, lines: make(chan []byte, queueLength), ending: make(chan struct{})}
	l.done.Go(l.write)
	return l
}

// Write queues a record. If the queue is full it waits for a bounded time; then the
// line counts as lost, which the next line that is written says.
func (l *Log) Write(r Record) {
	if l == nil {
		return
	}
	line := encode(r)
	select {
	case l.lines <- line:
		return
	default:
	}
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	select {
	case l.lines <- line:
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

// Lost is how many lines were lost since the start.
func (l *Log) Lost() uint64 {
	if l == nil {
		return 0
	}
	return l.total.Load()
}

func encode(r Record) []byte {
	r.Time = r.Time.UTC()
	for _, field := range []*string{&r.Who, &r.Repository, &r.Reference} {
		*field = (*field)[:min(len(*field), maxField)]
	}
	line, err := json.Marshal(r)
	if err != nil {
		panic(err) // plain data
	}
	return append(line, '\n')
}

// next is the next line; ok is false at the end, when the queue is empty.
func (l *Log) next() (line []byte, ok bool) {
	select {
	case line = <-l.lines:
		return line, true
	case <-l.ending:
	}
	select {
	case line = <-l.lines:
		return line, true
	default:
		return nil, false
	}
}

func (l *Log) ended() bool {
	select {
	case <-l.ending:
		return true
	default:
		return false
	}
}

// write writes until Close is called and the queue is empty.
func (l *Log) write() {
	failing := false
	for line, ok := l.next(); ok; line, ok = l.next() {
		if lost := l.lost.Swap(0); lost > 0 {
			if err := l.emit(encode(Record{Time: time.Now(), Event: "lost", Lost: lost})); err != nil {
				l.lost.Add(lost)
			}
		}
		err := l.emit(line)
		if err != nil {
			l.cause = err
			l.lose()
		}
		if err != nil && l.ended() { // what is queued would fail alike, each after a while
			for _, more := l.next(); more; _, more = l.next() {
				l.lose()
			}
			return
		}
		if err != nil && !failing {
			l.log.Error("cannot write the audit log; the lines that are lost are counted", zap.Error(err))
		}
		failing = err != nil
	}
}

func (l *Log) emit(line []byte) error {
	for _, sink := range l.sinks {
		if _, err := sink.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// Reopen lets files be opened anew, after somebody else has moved them away.
func (l *Log) Reopen() {
	if l == nil {
		return
	}
	for _, sink := range l.sinks {
		if f, ok := sink.(*File); ok {
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
	if lost := l.lost.Load(); lost > 0 {
		first = fmt.Errorf("lost %s of the audit log: %w", plural.Of(lost, "line"), cmp.Or(l.cause, errSlow))
	}
	for _, sink := range l.sinks {
		if err := sink.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}
