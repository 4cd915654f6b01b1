package config_test

import (
	"strings"
	"testing"

	"slipway/shared/config"
)

func TestProblems_ACME(t *testing.T) {
	for name, c := range map[string]struct {
		hosts     []string
		directory string
		want      string // part of the problem, "" if there is none
	}{
		"names":             {[]string{"registry.example.org", "a-b.c9.de"}, "", ""},
		"another authority": {nil, "https://acme.example.org/directory", ""},
		"wildcard":          {[]string{"*.example.org"}, "", "http.acme.hosts[0]"},
		"with a port":       {[]string{"a.example.org", "b.example.org:443"}, "", "http.acme.hosts[1]"},
		"upper case":        {[]string{"Registry.example.org"}, "", "http.acme.hosts[0]"},
		"one label":         {[]string{"localhost"}, "", "http.acme.hosts[0]"},
		"plain HTTP":        {nil, "http://acme.example.org/directory", "http.acme.directoryurl"},
		"no host":           {nil, "https:///directory", "http.acme.directoryurl"},
		"no URL":            {nil, "acme.example.org", "http.acme.directoryurl"},
	} {
		t.Run(name, func(t *testing.T) {
			var p config.Problems
			p.ACME("http.acme", c.hosts, c.directory)
			err := p.Err()
			if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want a problem with %q", err, c.want)
			}
		})
	}
}
