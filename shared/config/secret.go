package config

import (
	"fmt"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"

	"slipway/shared/fileerror"
)

// mask replaces every printed secret.
const mask = "***"

// Secret is a value that must not be seen: whatever prints, logs or encodes
// it, alone or inside another value, gets *** (and nothing for an empty one).
// The key of such a setting with the suffix _file names a file to read it from.
//
// The text is behind a pointer because fmt does not call methods of a value in
// an unexported field and would print its text otherwise.
type Secret struct {
	text *string
	file string
}

// NewSecret hides text.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{text: &text}
}

// Reveal returns the hidden text.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// File returns the name of the file that the secret was read from, "" for any other secret.
func (s Secret) File() string { return s.file }

// Reread returns the present content of File.
func (s Secret) Reread() (string, error) {
	content, err := os.ReadFile(s.file)
	return strings.TrimRight(string(content), "\r\n"), err
}

// Empty reports whether there is nothing to hide.
func (s Secret) Empty() bool { return s.text == nil }

// String returns the mask, or nothing for an empty secret.
func (s Secret) String() string {
	if s.Empty() {
		return ""
	}
	return mask
}

// Format makes every verb of fmt print the mask.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// MarshalText serves the encoders of JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// readSecret reads the file that a key with _file names, unless the section in holds the
// secret itself.
func (l *loader) readSecret(in, file *yaml.Node, path string) any {
	key := strings.TrimSuffix(path, "_file")
	if !isNull(valueOf(in, key[strings.LastIndexByte(key, '.')+1:])) {
		return l.wrong(file, path, "is given beside %s; keep one", key)
	}
	name := file.Value
	if l.Expand && file.Line > 0 {
		name = l.expand(file, path)
	}
	if name == "" {
		return nil
	}
	content, err := Secret{file: name}.Reread()
	switch {
	case err != nil:
		return l.wrong(file, path, "cannot be read: %v", fileerror.Explain(name, err))
	case content == "":
		return l.wrong(file, path, "%s is empty", name)
	}
	l.report.Origins[key] = name
	return Secret{&content, name}
}
