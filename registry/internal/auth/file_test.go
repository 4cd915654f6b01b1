package auth

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"slipway/registry/internal/oci"
)

func TestMissingFileNamesTheCommand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none")
	_, err := NewHtpasswd(HtpasswdOptions{Path: path, Log: zap.NewNop()})
	if err == nil || !strings.Contains(err.Error(), "registry htpasswd "+path+" USER") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the file was made")
	}
}

func TestFileChanges(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	h := open(t, HtpasswdOptions{Log: zap.New(core)}, line(t, "alice", "old"))
	try := func(user, password string) error {
		_, err := h.Authorize(basic(user, password), Access{Action: Ping})
		return err
	}
	if err := try("alice", "old"); err != nil {
		t.Fatal(err)
	}

	h.edit(t, line(t, "alice", "new"), line(t, "bob", "b"))
	if try("alice", "old") == nil {
		t.Error("the old password is still remembered")
	}
	if try("alice", "new") != nil || try("bob", "b") != nil {
		t.Error("the new lines are not in force")
	}

	if err := os.Remove(h.path); err != nil {
		t.Fatal(err)
	}
	_ = h.Reload() // that is refused
	for range 3 {
		refused := refusal(t, try("alice", "new"))
		if refused.Err.Code != oci.CodeUnavailable || refused.RetryAfter == 0 || refused.Challenge != "" {
			t.Errorf("without the file: %+v", refused)
		}
		_ = h.Reload() // that is refused
	}
	if n := logs.FilterLevelExact(zap.ErrorLevel).Len(); n != 1 {
		t.Errorf("the missing file was reported %d times, want once", n)
	}

	h.edit(t, line(t, "bob", "b"))
	if try("bob", "b") != nil {
		t.Error("the file is back and nobody gets in")
	}
	if try("alice", "new") == nil {
		t.Error("a removed user gets in")
	}
}

func TestChangeIsSeenWithoutHelp(t *testing.T) {
	h := open(t, HtpasswdOptions{}, line(t, "alice", "old"))
	// Rewritten in place, same size, within the resolution of the time stamp.
	if err := os.WriteFile(h.path, []byte(line(t, "alice", "new")), 0o600); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(3 * time.Second)
	for {
		if _, err := h.Authorize(basic("alice", "new"), Access{Action: Ping}); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the change is not seen after 3 s")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestBrokenLinesAreReportedOnceAndSkipped(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	const md5 = "carl:$apr1$zzzz$abcdefghijklmnopqrstu.\n"
	good := line(t, "alice", "secret")
	h := open(t, HtpasswdOptions{Log: zap.New(core)},
		"dora hunter2\n", md5, "sha:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n", "plain:hunter2\n", ":$2y$\n", "cut:$2y$05$abc\n",
		"slow:$2y$31$NoSuchUserInThisFileNobodyKnowsThePasswordOfThisHash.\n", good)
	if _, err := h.Authorize(basic("alice", "secret"), Access{Action: Ping}); err != nil {
		t.Errorf("the good line does not count: %v", err)
	}
	if n := logs.Len(); n != 7 {
		t.Errorf("%d lines reported, want 7: %v", n, logs.All())
	}
	for _, e := range logs.All() {
		for _, f := range e.Context {
			if strings.Contains(f.String, "hunter2") || strings.Contains(f.String, "$apr1") {
				t.Errorf("a line of the log holds a secret: %v", e)
			}
		}
	}
	logs.TakeAll()
	h.edit(t, md5, good)
	_, _ = h.Authorize(basic("alice", "secret"), Access{Action: Ping})
	if n := logs.FilterLevelExact(zap.ErrorLevel).Len(); n != 0 {
		t.Errorf("%d lines reported again", n)
	}
}
