package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/registry/internal/config"
)

// Each trusted root that can't be used is named, beside errors of the values.
func TestCheckFiles_TrustedRoots(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "root.json")
	if err := os.WriteFile(broken, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	var rules []config.SignatureRule
	for _, path := range []string{broken, broken + "x", filepath.Dir(broken)} {
		rules = append(rules, config.SignatureRule{Repositories: []string{"no NAME"}, TrustedRoot: path, Identities: []config.Identity{{Issuer: "i", Subject: "s"}}})
	}
	err := CheckFiles(&config.Config{Policy: config.Policy{Signatures: rules}})
	if err == nil {
		t.Fatal("no error")
	}
	lines := strings.Split(err.Error(), "\n")
	for i, want := range []string{"policy.signatures[0].trustedroot: " + broken + " is no trusted root", "[1].trustedroot: " + broken + "x does not exist", "is not a regular file"} {
		if len(lines) != 3 || !strings.Contains(lines[i], want) {
			t.Errorf("errors = %q, want %q", lines, want)
		}
	}
}

// Each key that can't be used is named before anything is opened.
func TestCheckFiles_KeysOfSignatures(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.pub")
	if err := os.WriteFile(broken, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	keys := []string{"../signature/testdata/ours.pub", broken, filepath.Join(dir, "missing.pub"), dir}
	err := CheckFiles(&config.Config{Policy: config.Policy{Signatures: []config.SignatureRule{{Repositories: []string{"**"}, Keys: keys}}}})
	if err == nil {
		t.Fatal("no error")
	}
	lines := strings.Split(err.Error(), "\n")
	for i, want := range []string{"keys[1]: " + broken + " is no public key in PEM", "missing.pub does not exist", "is not a regular file"} {
		if len(lines) != 3 || !strings.Contains(lines[i], want) {
			t.Errorf("errors = %q, want %q", lines, want)
		}
	}
}
