package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"slipway/deploy/internal/harness"
)

// person is somebody with a Matrix account who reads the one room they are in, which is encrypted: with a device of their own, in
// the network of the engine.
type person struct {
	engine *engine
	args   []string
}

// login makes a person of name and password. The device is made when the person reads for the first time.
func login(t *testing.T, e *engine, base, name, password string) *person {
	t.Helper()
	dir := filepath.Join(e.dir, name) // which outlives the part of the test that logs in
	file := filepath.Join(dir, "password")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(password), 0o600); err != nil {
		t.Fatal(err)
	}
	return &person{e, []string{
		"--target", strconv.Itoa(e.pid), "--net",
		harness.DevHomeserver(t), "messages", "--url", base, "--user", name, "--password-file", file, "--device", filepath.Join(dir, "device"),
	}}
}

// messages are the texts in the room.
func (p *person) messages(t *testing.T) ([]string, error) {
	out, err := exec.CommandContext(t.Context(), "nsenter", p.args...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	// The room's name, then a message a line with its sender; further lines of a message are indented more.
	room, texts, _ := strings.Cut("\n"+string(out), "\n  @")
	if strings.Count(strings.TrimSpace(room), "\n") > 0 {
		return nil, fmt.Errorf("the person is in several rooms: %s", out)
	}
	return slices.DeleteFunc(strings.Split(texts, "\n  @"), func(text string) bool { return text == "" }), nil
}

// count is how many of the messages have the text in them.
func count(messages []string, text string) int {
	n := 0
	for _, message := range messages {
		if strings.Contains(message, text) {
			n++
		}
	}
	return n
}

// reads waits for a message with the text, and for the homeserver if it is away.
func (p *person) reads(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		messages, err := p.messages(t)
		if count(messages, text) > 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("no message about %s in the room: %v\n%s", text, err, strings.Join(messages, "\n"))
		}
	}
}

// readsOnce looks at the end at what every push left: one message each.
func (p *person) readsOnce(t *testing.T, texts ...string) {
	t.Helper()
	messages, err := p.messages(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		if n := count(messages, text); n != 1 {
			t.Errorf("%d messages about %s", n, text)
		}
	}
	if len(messages) != len(texts) {
		t.Errorf("%d messages for %d pushes:\n%s", len(messages), len(texts), strings.Join(messages, "\n"))
	}
}
