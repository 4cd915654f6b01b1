package config

import "fmt"

// mask is what every printed secret looks like.
const mask = "***"

// Secret is a value that must not be seen: whatever prints, logs or encodes
// it, alone or inside another value, gets *** (and nothing for an empty one).
// A setting of this type has a twin with the suffix _file that names a file to
// read it from.
//
// The text is behind a pointer because fmt does not call methods of a value in
// an unexported field and would print its text otherwise.
type Secret struct{ text *string }

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

// MarshalText serves encoding/json and whatever else asks for text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalYAML serves the YAML encoder.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }
