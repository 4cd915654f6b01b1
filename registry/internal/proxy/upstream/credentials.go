package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"slipway/registry/internal/cache"
)

// Credentials hold the login for the upstream. Methods are safe for concurrent use.
type Credentials interface {
	Login(ctx context.Context) (username, password string, err error)
	// Refused notes that the upstream refused what Login returned.
	Refused()
}

// Password returns a login that does not change. It is nil without a user name.
func Password(username, password string) Credentials {
	if username == "" {
		return nil
	}
	return PasswordFile(username, password, func() (string, error) { return "", nil })
}

// PasswordFile returns a login whose password read reads each time, since files of secrets are
// replaced while a registry runs. If read fails or the file is empty, as while it is being
// written, the last password counts; at first that is password.
func PasswordFile(username, password string, read func() (string, error)) Credentials {
	f := &file{username: username, read: read}
	f.last.Store(&password)
	return f
}

type file struct {
	username string
	read     func() (string, error)
	last     atomic.Pointer[string]
}

func (f *file) Login(context.Context) (string, string, error) {
	if password, err := f.read(); err == nil && password != "" {
		f.last.Store(&password)
	}
	return f.username, *f.last.Load(), nil
}

func (f *file) Refused() {}

const (
	helperTimeout = 30 * time.Second
	maxHelper     = 64 << 10
)

// Helper runs a Docker credential helper: `<command> get` with the server on its standard
// input. Its answer is kept for the lifetime, or until the upstream refuses it: a negative
// lifetime has no end, and 0 is that of one request.
func Helper(command, server string, lifetime time.Duration) Credentials {
	return &helper{command: command, server: server, lifetime: lifetime}
}

type helper struct {
	command, server string
	lifetime        time.Duration
	runs            cache.Group[login]

	mu    sync.Mutex
	known login
	until time.Time
}

type login struct{ username, password string }

// Refused implements Credentials.
func (h *helper) Refused() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known = login{}
}

// Login implements Credentials.
func (h *helper) Login(ctx context.Context) (string, string, error) {
	h.mu.Lock()
	l, valid := h.known, h.known.username != "" && (h.lifetime < 0 || time.Now().Before(h.until))
	h.mu.Unlock()
	if valid {
		return l.username, l.password, nil
	}
	l, err := h.runs.Do(ctx, "", func() (login, error) {
		l, err := h.run(context.WithoutCancel(ctx))
		if err == nil {
			h.mu.Lock()
			h.known, h.until = l, time.Now().Add(h.lifetime)
			h.mu.Unlock()
		}
		return l, err
	})
	if err != nil {
		return "", "", fmt.Errorf("credential helper %s: %w", h.command, err)
	}
	return l.username, l.password, nil
}

// run runs the program once.
func (h *helper) run(ctx context.Context) (login, error) {
	ctx, cancel := context.WithTimeout(ctx, helperTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.command, "get")
	cmd.Stdin = strings.NewReader(h.server)
	cmd.WaitDelay = time.Second // children may hold its output open
	var out bytes.Buffer
	cmd.Stdout = &limited{w: &out, left: maxHelper}
	if err := cmd.Run(); err != nil {
		return login{}, err
	}
	var answer struct{ Username, Secret string }
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil || answer.Username == "" {
		return login{}, errors.New("it returned no user name")
	}
	return login{answer.Username, answer.Secret}, nil
}

// limited fails a program that writes too much.
type limited struct {
	w    io.Writer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if len(p) > l.left {
		return 0, errors.New("it wrote too much")
	}
	l.left -= len(p)
	return l.w.Write(p)
}
