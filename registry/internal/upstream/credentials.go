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
	"time"
)

// Credentials gives the login of the upstream.
type Credentials func(ctx context.Context) (username, password string, err error)

// Password is a login that does not change; nil if there is no user name.
func Password(username, password string) Credentials {
	if username == "" {
		return nil
	}
	return func(context.Context) (string, string, error) { return username, password, nil }
}

const (
	helperTimeout = 30 * time.Second
	maxHelper     = 64 << 10
)

// Helper asks a program that speaks the protocol of Docker's credential helpers
// (`<command> get`, the server on its standard input). What it says holds for the
// lifetime: negative stands for ever, 0 for one request.
func Helper(command, server string, lifetime time.Duration) Credentials {
	h := &helper{command: command, server: server, lifetime: lifetime, turn: make(chan struct{}, 1)}
	return h.get
}

type helper struct {
	command, server string
	lifetime        time.Duration

	turn               chan struct{} // holds a token while the fields below are used
	until              time.Time
	known              bool
	username, password string
	failed             time.Time // when it last failed, and why
	err                error
}

func (h *helper) get(ctx context.Context) (string, string, error) {
	begun := time.Now()
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return "", "", fmt.Errorf("waiting for the credential helper %s: %w", h.command, ctx.Err())
	}
	if h.known && (h.lifetime < 0 || time.Now().Before(h.until)) {
		return h.username, h.password, nil
	}
	if h.failed.After(begun) { // whoever has waited for one that hangs does not start the next one
		return "", "", h.err
	}
	username, password, err := h.run(ctx)
	if err != nil {
		if !errors.Is(ctx.Err(), context.Canceled) {
			h.failed, h.err = time.Now(), err
		}
		return "", "", err
	}
	h.username, h.password = username, password
	h.known, h.until = true, time.Now().Add(h.lifetime)
	return username, password, nil
}

// run asks the program once.
func (h *helper) run(ctx context.Context) (username, password string, err error) {
	ctx, cancel := context.WithTimeout(ctx, helperTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.command, "get")
	cmd.Stdin = strings.NewReader(h.server)
	cmd.WaitDelay = time.Second // its children may hold its output
	var out bytes.Buffer
	cmd.Stdout = &limited{w: &out, left: maxHelper}
	if err := cmd.Run(); err != nil {
		return "", "", fmt.Errorf("the credential helper %s failed: %w", h.command, err)
	}
	var answer struct{ Username, Secret string }
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil || answer.Username == "" {
		return "", "", fmt.Errorf("the credential helper %s gave no user name", h.command)
	}
	return answer.Username, answer.Secret, nil
}

// limited refuses what is more than a program may say.
type limited struct {
	w    io.Writer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if len(p) > l.left {
		return 0, errors.New("the credential helper says too much")
	}
	l.left -= len(p)
	return l.w.Write(p)
}
