package config

import (
	"strings"
	"testing"
)

// A secret that can be guessed is refused where somebody would forge events with it, and else a warning:
// a configuration of distribution with a short http.secret starts.
func TestWeakSecrets(t *testing.T) {
	const text = "version: 0.1\nstorage: {inmemory: {}}\nhttp: {secret: '%'}\n"
	const events = "version: 0.1\nstorage: {inmemory: {}}\nnotifications: {endpoints: [{name: a, url: 'http://a/', secret: '%'}]}\n"
	for secret, weak := range map[string]bool{
		"":                                 false,
		"7a4dd2a5f0c94a4cb9a8a6e3e6a55ad1": false,
		"s":                                true,
		"asecretforlocaldevelopment":       true,
		"A-Long-Random-String":             true,
		"<output of openssl rand -hex 32>": true,
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": true,
		"123456789012345":                  true,
		"changemechangemechangemechangeme": true,
		"0123456789abcdef0123456789abcdef": true,
		"deadbeefdeadbeefdeadbeefdeadbeef": true,
	} {
		_, report, err := loadText(t, strings.ReplaceAll(text, "%", secret))
		if err != nil {
			t.Errorf("http.secret %q stops the start: %v", secret, err)
		}
		said := strings.Join(report.Warnings, "\n")
		if strings.Contains(said, "http.secret: ") != weak || len(secret) > 15 && strings.Contains(said, secret) {
			t.Errorf("http.secret %q: the warnings are %q", secret, said)
		}
		_, _, err = loadText(t, strings.ReplaceAll(events, "%", secret))
		if (err != nil) != weak || err != nil && !strings.Contains(err.Error(), "openssl rand -hex 32") {
			t.Errorf("an endpoint's secret %q: %v", secret, err)
		}
	}
}
