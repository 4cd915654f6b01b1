package health

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// sick is a check function whose answer the test changes.
type sick struct {
	mu  sync.Mutex
	err error
}

func (s *sick) look(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *sick) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func TestThresholdAndRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sick{err: errors.New("disk on fire")}
		m := Start(zap.NewNop(), Check{Name: "disk", Interval: time.Second, Threshold: 3, Func: s.look})
		defer m.Close()
		for i, want := range []bool{true, true, true, false, false} { // looks at 1 s, 2 s, 3 s, 4 s
			if m.Ready() != want {
				t.Errorf("after %d looks Ready is %v, want %v", i, m.Ready(), want)
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if got := m.Failures()["disk"]; got != "disk on fire" {
			t.Errorf("failure text %q", got)
		}
		s.set(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		if !m.Ready() || m.Failing("disk") || len(m.Failures()) != 0 {
			t.Error("one good look does not heal the check")
		}
	})
}

// The page of an explained failure has few words, the log has the cause.
func TestExplain_PageHasTheTextAndLogTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.DebugLevel)
		full := errors.New("write /srv/x: no space left on device")
		m := Start(zap.New(core), Check{Name: "disk", Interval: time.Second, Func: func(context.Context) error {
			return fmt.Errorf("check: %w", Explain("disk full", full))
		}})
		defer m.Close()
		time.Sleep(time.Second)
		synctest.Wait()
		if got := m.Failures()["disk"]; got != "disk full" {
			t.Errorf("the page says %q", got)
		}
		if n := len(logs.All()); n != 1 || !strings.Contains(fmt.Sprint(logs.All()[0].ContextMap()["error"]), full.Error()) {
			t.Errorf("log: %v", logs.All())
		}
	})
}

// A check that succeeds runs at its relaxed interval, and soon after trouble. While it fails it runs at the short one.
func TestRelaxed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sick
		var runs atomic.Int64
		trouble := make(chan struct{}, 1)
		m := Start(zap.NewNop(), Check{Name: "bucket", Interval: time.Second, Relaxed: time.Hour, Threshold: 3, Trouble: trouble, Func: func(ctx context.Context) error {
			runs.Add(1)
			return s.look(ctx)
		}})
		defer m.Close()
		after := func(d time.Duration, want int64, what string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if n := runs.Swap(0); n != want {
				t.Errorf("%s: %d runs, want %d", what, n, want)
			}
		}
		after(time.Second, 1, "at the start")
		after(10*time.Hour, 10, "while it succeeds")
		s.set(errors.New("no answer"))
		trouble <- struct{}{}
		after(3*time.Second, 3, "after trouble")
		if m.Ready() {
			t.Error("ready after three failures")
		}
		for range 10 {
			trouble <- struct{}{}
			synctest.Wait()
		}
		after(time.Second, 1, "in trouble again")
		s.set(nil)
		after(time.Second, 1, "after the recovery")
		after(time.Hour-time.Second, 0, "while it succeeds again")
	})
}

func TestRecoveryResetsTheCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		m := Start(zap.NewNop(), Check{Name: "flaky", Interval: time.Second, Threshold: 2, Func: func(context.Context) error {
			if n++; n%2 == 0 {
				return errors.New("every second time")
			}
			return nil
		}})
		defer m.Close()
		for range 20 {
			time.Sleep(time.Second)
			synctest.Wait()
			if !m.Ready() {
				t.Fatalf("failing after look %d though never twice in a row", n)
			}
		}
	})
}

func TestImmediateLooksAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sick{err: errors.New("no")}
		m := Start(zap.NewNop(), Check{Name: "a", Immediate: true, Func: s.look})
		defer m.Close()
		synctest.Wait()
		if m.Ready() {
			t.Error("the first look was not taken at once")
		}
	})
}

func TestAdvisoryStaysReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sick{err: errors.New("cannot write")}
		m := Start(zap.NewNop(), Check{Name: "write", Immediate: true, Advisory: true, Func: s.look})
		defer m.Close()
		synctest.Wait()
		if !m.Ready() {
			t.Error("an advisory check closed the gate")
		}
		if !m.Failing("write") {
			t.Error("an advisory failure is not reported")
		}
	})
}

// What serving does not need is named, and the page stays at 200.
func TestWarningStaysHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		upstream, disk := &sick{err: errors.New("no route")}, &sick{}
		m := Start(zap.NewNop(), Check{Name: "upstream", Interval: time.Second, Warning: true, Func: upstream.look}, Check{Name: "disk", Interval: time.Second, Func: disk.look})
		defer m.Close()
		page := func() (int, string) {
			time.Sleep(time.Second)
			synctest.Wait()
			w := httptest.NewRecorder()
			m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/health", nil))
			return w.Code, w.Body.String()
		}
		if code, body := page(); code != http.StatusOK || body != `{"upstream":"no route"}` || !m.Ready() || m.Status()["upstream"] {
			t.Errorf("a warning: %d %s, ready %v, status %v", code, body, m.Ready(), m.Status())
		}
		disk.set(errors.New("gone"))
		if code, body := page(); code != http.StatusServiceUnavailable || body != `{"disk":"gone","upstream":"no route"}` || m.Ready() {
			t.Errorf("a warning and a failure: %d %s, ready %v", code, body, m.Ready())
		}
	})
}

func TestHungLookFailsAndDoesNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, looks := make(chan struct{}), 0
		m := Start(zap.NewNop(), Check{Name: "nfs", Interval: time.Second, Timeout: 2 * time.Second, Func: func(context.Context) error {
			looks++
			<-release // deaf to the context, as a stat on a dead mount is
			return nil
		}})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if m.Ready() {
			t.Error("a check that hangs counts as healthy")
		}
		if looks != 1 {
			t.Errorf("%d looks at once, want 1", looks)
		}
		close(release)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !m.Ready() {
			t.Errorf("not healed after the hang ended: %v", m.Failures())
		}
		m.Close()
	})
}

func TestCloseDoesNotCountAsFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := Start(zap.NewNop(), Check{Name: "slow", Immediate: true, Func: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}})
		synctest.Wait()
		m.Close()
		if !m.Ready() {
			t.Error("closing turned a running look into a failure")
		}
	})
}

func TestPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sick{}
		m := Start(zap.NewNop(), Check{Name: "tcp", Interval: time.Second, Func: s.look})
		defer m.Close()
		ask := func(method string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			m.ServeHTTP(w, httptest.NewRequest(method, "/debug/health", nil))
			return w
		}
		if w := ask(http.MethodGet); w.Code != http.StatusOK || w.Body.String() != "{}" {
			t.Errorf("healthy: %d %q", w.Code, w.Body)
		}
		s.set(errors.New("gone"))
		time.Sleep(time.Second)
		synctest.Wait()
		if w := ask(http.MethodGet); w.Code != http.StatusServiceUnavailable || w.Body.String() != `{"tcp":"gone"}` {
			t.Errorf("failing: %d %q", w.Code, w.Body)
		}
		if w := ask(http.MethodPost); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("POST: %d, Allow %q", w.Code, w.Header().Get("Allow"))
		}
	})
}
