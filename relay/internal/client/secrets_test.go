package client

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway/shared/programtest"
)

func open(t *testing.T, dir string) *Secrets {
	t.Helper()
	s, err := OpenSecrets(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestMakeMakesWhatIsMissing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "secrets")
	s := open(t, dir)
	for name, text := range map[string]string{"given": "by hand\n", "empty": "", "bare": "no line end"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	made, err := s.Make("new", "given", "empty", "bare")
	if err != nil || !slices.Equal(made, []string{"new", "empty"}) {
		t.Fatalf("made %v, %v", made, err)
	}
	for name, want := range map[string]string{"given": "by hand", "bare": "no line end"} {
		if got, err := s.Get(name); got != want || err != nil {
			t.Errorf("%s is %q, %v, want %q", name, got, err, want)
		}
	}
	a, _ := s.Get("new")
	if b, _ := s.Get("empty"); len(a) < 20 || a == b {
		t.Errorf("secrets %q and %q", a, b)
	}
	if info, err := os.Stat(s.Path("new")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode of the folder %v, %v", info.Mode(), err)
	}
	if made, err := s.Make("new", "empty"); len(made) > 0 || err != nil {
		t.Errorf("made %v again, %v", made, err)
	}
	if got, _ := s.Get("new"); got != a {
		t.Error("a secret has changed")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestOpenLetsOneIn(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if _, err := OpenSecrets(dir); err == nil || !strings.Contains(err.Error(), "another setup works on "+dir) {
		t.Errorf("error %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
}

func TestMakeSecretsKeepsTheRegistrysApart(t *testing.T) {
	relay, registry := open(t, t.TempDir()), open(t, t.TempDir())
	var said []string
	say := func(format string, args ...any) { said = append(said, format) }
	if err := MakeSecrets(relay, registry, say); err != nil {
		t.Fatal(err)
	}
	if secret, _ := registry.Get(RegistrySecret); secret == "" || len(said) != 1 {
		t.Errorf("the registry's secret is %q, said %q", secret, said)
	}
	if secret, _ := relay.Get(RegistrySecret); secret != "" {
		t.Error("the relay has the registry's secret")
	}
	for _, name := range []string{BotPassword, AdminPassword} {
		if secret, _ := relay.Get(name); secret == "" {
			t.Errorf("%s is missing", name)
		}
		if secret, _ := registry.Get(name); secret != "" {
			t.Errorf("the registry can read %s", name)
		}
	}
}

// What the registry signs with, the relay has to know: an earlier setup did not make
// it, or ended before both had it, or somebody has put another one into the place.
func TestMakeSecretsSharesWhatTheRegistrySignsWith(t *testing.T) {
	relay, registry := open(t, t.TempDir()), open(t, t.TempDir())
	share := func() string {
		t.Helper()
		if err := MakeSecrets(relay, registry, func(string, ...any) {}); err != nil {
			t.Fatal(err)
		}
		has, _ := relay.Get(HookSecret)
		if signs, _ := registry.Get(HookSecret); len(has) < 16 || signs != has {
			t.Errorf("the registry signs with %q, the relay expects %q", signs, has)
		}
		return has
	}
	first := share()
	if err := registry.remove(HookSecret); err != nil {
		t.Fatal(err)
	}
	if again := share(); again != first {
		t.Errorf("the secret was %q and is %q", first, again)
	}
	if err := relay.Put(HookSecret, "one that an operator chose"); err != nil {
		t.Fatal(err)
	}
	if chosen := share(); chosen != "one that an operator chose" {
		t.Errorf("the secret is %q", chosen)
	}
}

func TestPut_IsDurable(t *testing.T) {
	programtest.WantDurable(t, func(dir string) error { return open(t, dir).Put("password", "secret") }, "password")
}
