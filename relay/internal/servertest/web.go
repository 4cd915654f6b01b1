package servertest

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"slipway/shared/programtest"
)

//go:embed reader.mjs
var readerScript []byte

// WebClient is a device of a person in matrix-js-sdk with encryption in Rust, as in current web and desktop clients.
type WebClient struct {
	t   testing.TB
	mu  sync.Mutex
	in  io.Writer
	out *bufio.Reader
	err *programtest.Output
}

// Shown is an event as the client shows it.
type Shown struct {
	ID        string         `json:"id"`
	Type      string         `json:"type"`
	Content   map[string]any `json:"content"`
	Encrypted bool           `json:"encrypted"`
	Failed    string         `json:"failed"` // why it cannot be decrypted, "" if it can
	Removed   bool           `json:"removed"`
	Shield    int            `json:"shield"` // 0: no warning, 1: grey, 2: red; -1: it is not encrypted, or not decrypted
	Reason    *int           `json:"reason"` // of the warning, an EventShieldReason
}

// Body is the text of the event.
func (e Shown) Body() string {
	body, _ := e.Content["body"].(string)
	return body
}

// Standing describes a device of another user as the client sees it.
type Standing struct {
	Known    bool `json:"known"`
	Signed   bool `json:"signed"`   // by its owner's identity
	Changed  bool `json:"changed"`  // the owner's identity changed, and the client asks its user to accept that
	Verified bool `json:"verified"` // the person has compared the owner's identity
}

// NewWebClient logs a person in with a new device. It ends with the test.
func NewWebClient(t testing.TB, homeserver, user, password string) *WebClient {
	t.Helper()
	script := filepath.Join(t.TempDir(), "reader.mjs")
	if err := os.WriteFile(script, readerScript, 0o600); err != nil {
		t.Fatal(err)
	}
	sdk := filepath.Join(programtest.Root(t), ".tools", "matrix-js-sdk", "node_modules", "matrix-js-sdk")
	if _, err := os.Stat(sdk); err != nil {
		t.Fatalf("matrix-js-sdk is missing; `make tools` installs it: %v", err)
	}
	cmd := exec.CommandContext(context.Background(), programtest.Tool(t, "node"), script, sdk, homeserver, user, password)
	w := &WebClient{t: t, err: &programtest.Output{}}
	cmd.Stderr = w.err
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	w.in, w.out = in, bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	return w
}

// ask makes a request and decodes its result into out.
func (w *WebClient) ask(out any, do string, fields map[string]string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	request := map[string]string{"do": do}
	for k, v := range fields {
		request[k] = v
	}
	b, err := json.Marshal(request)
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = w.in.Write(append(b, '\n'))
	line, readErr := w.out.ReadBytes('\n')
	if err = errors.Join(err, readErr); err != nil {
		w.t.Fatalf("the web client ended: %v\n%s", err, w.err)
	}
	var answer struct {
		Result json.RawMessage
		Error  string
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		w.t.Fatalf("the web client answers %q: %v", line, err)
	}
	if answer.Error == "" && out != nil {
		err = json.Unmarshal(answer.Result, out)
	}
	if answer.Error != "" || err != nil {
		w.t.Fatalf("the web client: %s (%v)\n%s", answer.Error, err, w.err)
	}
}

// NewIdentity makes the person's identity, or replaces it, and returns its recovery key.
func (w *WebClient) NewIdentity() (recoveryKey string) {
	w.t.Helper()
	w.ask(&recoveryKey, "identity", nil)
	return recoveryKey
}

// Recover restores the person's identity by its recovery key, and signs the device with it.
func (w *WebClient) Recover(key string) {
	w.t.Helper()
	w.ask(nil, "recover", map[string]string{"key": key})
}

// Start begins to sync and returns the device's id.
func (w *WebClient) Start() (device string) {
	w.t.Helper()
	w.ask(&device, "start", nil)
	return device
}

// CreateRoom makes a room as clients do by default, so that it is private and encrypted.
func (w *WebClient) CreateRoom(invite string) (room string) {
	w.t.Helper()
	w.ask(&room, "create", map[string]string{"invite": invite})
	return room
}

// Events returns the events of a room without its state, in order.
func (w *WebClient) Events(room string) (all []Shown) {
	w.t.Helper()
	w.ask(&all, "events", map[string]string{"room": room})
	return all
}

// File downloads and decrypts the file of an event.
func (w *WebClient) File(room, event string) (content []byte) {
	w.t.Helper()
	w.ask(&content, "file", map[string]string{"room": room, "id": event})
	return content
}

// Device returns the client's view of a device of another user.
func (w *WebClient) Device(user, device string) (s Standing) {
	w.t.Helper()
	w.ask(&s, "device", map[string]string{"user": user, "device": device})
	return s
}

// Accept accepts a changed identity of another user.
func (w *WebClient) Accept(user string) {
	w.t.Helper()
	w.ask(nil, "accept", map[string]string{"user": user})
}

// String is for messages about an event.
func (e Shown) String() string {
	return fmt.Sprintf("%s %q (encrypted %v, failed %q, removed %v, shield %d)", e.Type, e.Body(), e.Encrypted, e.Failed, e.Removed, e.Shield)
}
