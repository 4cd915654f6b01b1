package filewatch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func join(contents [][]byte) (string, error) {
	text := ""
	for _, c := range contents {
		text += string(c)
	}
	if strings.Contains(text, "broken") {
		return "", errors.New("it is broken")
	}
	return text, nil
}

func TestValue(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	write(t, a, "1")
	write(t, b, "2")
	core, logs := observer.New(zap.InfoLevel)
	v, err := Open(Options{What: "numbers", Paths: []string{a, "", b}, Log: zap.New(core)}, join)
	if err != nil {
		t.Fatal(err)
	}
	want := func(text string, lines int) {
		t.Helper()
		v.nextRead.Store(0)
		if got := v.Get(); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
		if n := logs.Len(); n != lines {
			t.Errorf("%d lines in the log, want %d: %+v", n, lines, logs.All())
		}
	}
	want("12", 0)
	write(t, b, "3")
	want("13", 1)
	want("13", 1)
	write(t, a, "broken")
	want("13", 2)
	want("13", 2) // logged once
	if err := os.Remove(a); err != nil {
		t.Fatal(err)
	}
	want("13", 3)
	write(t, a, "1") // what it was before
	want("13", 3)
	write(t, a, "4")
	if err := v.Reload(); err != nil {
		t.Error(err)
	}
	want("43", 4)
}

// TestValue_FIFO: opening a FIFO blocks until there is a writer, and the lock would be held for good.
func TestValue_FIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	write(t, path, "1")
	core, logs := observer.New(zap.InfoLevel)
	v, err := Open(Options{What: "numbers", Paths: []string{path}, Log: zap.New(core)}, join)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = v.Reload() // the log has the error
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("the reload hangs")
	}
	if v.Last() != "1" || logs.FilterMessageSnippet("cannot reload the numbers").Len() != 1 {
		t.Errorf("%q, log %+v", v.Last(), logs.All())
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write(t, path, "2")
	if err := v.Reload(); err != nil || v.Last() != "2" {
		t.Errorf("%q, %v after the file is back", v.Last(), err)
	}
}

func TestValue_Strict(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	write(t, path, "1")
	core, logs := observer.New(zap.InfoLevel)
	v, err := Open(Options{What: "numbers", Paths: []string{path}, Log: zap.New(core), Strict: true}, join)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		content, want string
		lines         int
	}{{"broken", "", 1}, {"broken", "", 1}, {"1", "1", 2}} {
		write(t, path, step.content)
		v.nextRead.Store(0)
		if got := v.Get(); got != step.want || logs.Len() != step.lines {
			t.Errorf("of %q: %q, log %+v", step.content, got, logs.All())
		}
	}
}

func TestOpen_Fails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	write(t, path, "broken")
	write(t, filepath.Join(dir, "large"), strings.Repeat("x", maxSize+1))
	for _, p := range []string{path, filepath.Join(dir, "missing"), dir, filepath.Join(dir, "large")} {
		if v, err := Open(Options{What: "x", Paths: []string{p}, Log: zap.NewNop()}, join); err == nil {
			t.Errorf("%s: %q", p, v.Get())
		}
	}
}
