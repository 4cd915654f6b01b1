package config

import (
	"fmt"
	"strings"
	"testing"
)

// An interval alone starts no job.
func TestWarnings_IntervalOfAJobThatIsOff(t *testing.T) {
	for text, want := range map[string][]string{
		"gc: {interval: 1h}":                                {"storage.maintenance.gc.interval: has no effect without storage.maintenance.gc.enabled: true"},
		"gc: {interval: 24h}":                               {"storage.maintenance.gc.interval: has no effect without storage.maintenance.gc.enabled: true"}, // its default
		"gc: {interval: 1h, enabled: false}":                nil,
		"gc: {interval: 1h, enabled: true}":                 nil,
		"gc: {enabled: false}":                              nil,
		"verify: {interval: 1h}, retention: {interval: 2h}": {"storage.maintenance.retention.interval: has no effect without", "storage.maintenance.verify.interval: has no effect without"},
	} {
		_, report, err := loadText(t, "version: 0.1\nstorage: {inmemory: {}, maintenance: {"+text+"}}\nauth: none\n")
		if err != nil || len(report.Warnings) != len(want) {
			t.Errorf("%s: %v, %q", text, err, report.Warnings)
			continue
		}
		for i := range want {
			if !strings.HasPrefix(report.Warnings[i], want[i]) {
				t.Errorf("%s: %q, want %q", text, report.Warnings[i], want[i])
			}
		}
	}
}

// Headers of distribution that seem to let pages of every origin delete.
func TestWarnings_PagesOfEveryOrigin(t *testing.T) {
	for headers, want := range map[string]int{
		"Access-Control-Allow-Origin: ['*'], Access-Control-Allow-Methods: ['HEAD', 'GET', 'OPTIONS', 'DELETE']": 1,
		"Access-Control-Allow-Origin: ['*'], Access-Control-Allow-Methods: ['HEAD, GET']":                        0,
		"Access-Control-Allow-Origin: ['http://ui.example.org'], Access-Control-Allow-Methods: [DELETE]":         0,
	} {
		_, report, err := loadText(t, minimal+"http: {headers: {"+headers+"}}")
		if err != nil || len(report.Warnings) != want {
			t.Errorf("%s: %v, %q", headers, err, report.Warnings)
		}
	}
}

// Without access rules every user may push, and is only warned of an image without a signature.
func TestWarnings_SignaturesWithoutRules(t *testing.T) {
	const auth = "version: 0.1\nstorage: {inmemory: {}}\nauth: {htpasswd: {realm: r, path: /p}}\npolicy: {signatures: [{repositories: ['**'], keys: [/k.pub], action: %s}]}\n"
	for _, c := range []struct {
		action, more string
		want         int
	}{
		{"refuse", "", 1},
		{"warn", "", 0},
		{"refuse", "access: {rules: [{who: [ci], repositories: ['**'], allow: [push]}]}", 0},
	} {
		_, report, err := loadText(t, fmt.Sprintf(auth, c.action)+c.more)
		if err != nil || len(report.Warnings) != c.want {
			t.Errorf("%s %s: %v, %q", c.action, c.more, err, report.Warnings)
		}
	}
}
