package logging

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

// sink is a writer that is safe for concurrent use.
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

// A process that is killed has written its lines without being asked to.
func TestBuffer_LinesOutlastAKill(t *testing.T) {
	const child = "SLIPWAY_TEST_LOGGING_CHILD"
	if os.Getenv(child) != "" {
		log, err := New(NewBuffer(os.Stdout), Config{})
		if err != nil {
			t.Fatal(err)
		}
		log.Info("kept")
		time.Sleep(time.Hour)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestBuffer_LinesOutlastAKill$")
	cmd.Env = append(os.Environ(), child+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n') // the child sends no more
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // which reports the kill
	if !strings.Contains(line, "kept") {
		t.Errorf("got %q", line)
	}
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
