package logging

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

// sink is a writer that may be looked at while it is used.
type sink struct {
	mu     sync.Mutex
	out    bytes.Buffer
	writes int
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	return s.out.Write(p)
}

func (s *sink) state() (text string, writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String(), s.writes
}

func TestBufferFlushesByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sink
		b := NewBuffer(&s)
		defer b.Close()
		for round := range 3 {
			for range 10 {
				_, _ = b.Write([]byte("line\n"))
			}
			synctest.Wait()
			if _, n := s.state(); n != round {
				t.Errorf("round %d: %d writes before the delay", round, n)
			}
			time.Sleep(bufferDelay + time.Millisecond)
			synctest.Wait()
			if text, n := s.state(); n != round+1 || strings.Count(text, "\n") != 10*(round+1) {
				t.Errorf("round %d: %d writes, %d lines", round, n, strings.Count(text, "\n"))
			}
		}
	})
}

// The clock stands still while lines are written, so that no delay adds a write.
func TestBufferKeepsOrderAndLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sink
		b := NewBuffer(&s)
		long := strings.Repeat("x", bufferSize+1)
		want := ""
		for i := range 5000 {
			line := strings.Repeat("y", i%100) + "\n"
			if i == 2500 {
				line = long
			}
			want += line
			_, _ = b.Write([]byte(line))
		}
		b.Close()
		_, _ = b.Write([]byte("after"))
		if got, n := s.state(); got != want+"after" || n > 20 {
			t.Errorf("%d bytes in %d writes, want %d bytes", len(got), n, len(want)+5)
		}
		b.Close()
	})
}

func TestWarningsDoNotWait(t *testing.T) {
	var s sink
	b := NewBuffer(&s)
	defer b.Close()
	log, err := New(b, Config{})
	if err != nil {
		t.Fatal(err)
	}
	log.Info("first")
	if text, _ := s.state(); text != "" {
		t.Errorf("not buffered: %q", text)
	}
	log.With(zap.Int("n", 1)).Error("second")
	if text, _ := s.state(); strings.Count(text, "\n") != 2 {
		t.Errorf("after an error: %q", text)
	}
}
