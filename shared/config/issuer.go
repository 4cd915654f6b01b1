package config

import (
	"net/url"
	"strings"
)

// Issuer adds a problem with a setting that isn't the URL of an OpenID Connect issuer: https, or http on this machine.
func (p *Problems) Issuer(key, text, example string) {
	u, err := url.Parse(text)
	local := err == nil && u.Scheme == "http" && (u.Hostname() == "localhost" || strings.HasPrefix(u.Hostname(), "127."))
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Scheme != "https" && !local {
		p.Addf(key, "must be an https URL such as %s", example)
	}
}
