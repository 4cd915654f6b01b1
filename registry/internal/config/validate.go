package config

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"slipway/registry/internal/oci"
	"slipway/shared/config"
)

const noDriver = "names no driver: filesystem, s3, azure, gcs or inmemory"

// Validate adds everything that is wrong with the values.
func (c *Config) Validate(p *config.Problems) {
	c.Storage.validate(p)
	if c.Auth != nil {
		c.Auth.validate(p, c.Access != nil)
		if c.Auth.OIDC != nil && !c.HTTP.UI.Enabled {
			p.Addf("auth.oidc", "is for the pages, which http.ui.enabled switches off")
		}
	}
	if c.Access != nil {
		c.Access.validate(p)
	}
	if c.Audit != nil {
		c.Audit.validate(p)
	}
	c.Middleware.validate(p, c.Storage.S3 != nil)
	c.HTTP.validate(p)
	c.Health.validate(p)
	c.Validation.validate(p)
	c.Replication.validate(p)
	c.validateSignatures(p)
	c.Notifications.validate(p)
	c.Slipway.validate(p)
	c.Proxy.validate(p, c.open())
}

// open reports whether everybody may pull everything.
func (c *Config) open() bool {
	switch a := c.Auth; {
	case c.Access != nil:
		return false // the rules say who may
	case a == nil || a.None != nil:
		return true
	default:
		return a.HTPasswd != nil && a.HTPasswd.AnonymousPull
	}
}

func (s *Storage) validate(p *config.Problems) {
	switch drivers := s.Drivers(); {
	case len(drivers) == 0:
		p.Addf("storage", noDriver)
	case len(drivers) > 1:
		p.Addf("storage", "names several drivers: %s; REGISTRY_STORAGE=<driver> would replace the section of the file", strings.Join(drivers, ", "))
	}
	if s.Filesystem != nil && s.Filesystem.RootDirectory == "" {
		p.Addf("storage.filesystem.rootdirectory", "is empty")
	}
	if s.S3 != nil {
		s.S3.validate(p)
	}
	if s.Azure != nil {
		s.Azure.validate(p)
	}
	if s.GCS != nil {
		s.GCS.validate(p)
	}
	if _, err := s.Redirect.Excluded(); err != nil {
		p.Addf("storage.redirect.exclude", "%v", err)
	}
	switch s.Cache.BlobDescriptor {
	case "", "inmemory", "redis":
	default:
		p.Addf("storage.cache.blobdescriptor", "%q is neither inmemory nor redis", s.Cache.BlobDescriptor)
	}
	s.Maintenance.UploadPurging.validate(p)
	s.Maintenance.validate(p)
}

func (h *HTTP) validate(p *config.Problems) {
	if h.Net == "unix" {
		required(p, "http.addr", h.Addr)
	} else {
		address(p, "http.addr", h.Addr)
	}
	if h.Debug.Addr != "" {
		address(p, "http.debug.addr", h.Debug.Addr)
		if h.Addr == h.Debug.Addr && !strings.HasSuffix(h.Addr, ":0") {
			p.Addf("http.debug.addr", "http.addr and http.debug.addr are equal")
		}
	}
	if !strings.HasPrefix(h.Debug.Prometheus.Path, "/") {
		p.Addf("http.debug.prometheus.path", "must begin with a slash")
	}
	if h.Prefix != "" && !strings.HasPrefix(h.Prefix, "/") {
		p.Addf("http.prefix", "must begin with a slash")
	}
	if u, err := url.Parse(h.Host); h.Host != "" && (err != nil || u.Scheme == "" || u.Host == "") {
		p.Addf("http.host", "%q is not a URL such as https://registry.example.org", h.Host)
	} else if strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/v2") { // distribution cuts it off
		p.Addf("http.host", "must not end with /v2, which is added to it")
	}
	if _, _, err := h.Proxies(); err != nil {
		p.Addf("http.trustedproxies", "%v", err)
	}
	headers(p, "http.headers", h.Headers)
	if h.TLS != nil {
		h.TLS.validate(p)
	}
}

func (t *TLS) validate(p *config.Problems) {
	switch files := t.Certificate != "" || t.Key != ""; {
	case t.LetsEncrypt.Enabled() && files:
		p.Addf("http.tls.letsencrypt", "is in place of certificate and key; leave these out, or it")
	case t.LetsEncrypt.Enabled():
		t.LetsEncrypt.validate(p)
	case t.Certificate == "" || t.Key == "":
		p.Addf("http.tls", "needs certificate and key, or letsencrypt; leave the section out to serve without TLS")
	}
	if t.ClientAuth != "" && len(t.ClientCAs) == 0 {
		p.Addf("http.tls.clientauth", "needs clientcas; leave it out to ask for no certificates")
	}
	for _, name := range t.CipherSuites {
		if !slices.ContainsFunc(slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()), func(s *tls.CipherSuite) bool { return s.Name == name }) {
			p.Addf("http.tls.ciphersuites", "%q is no cipher suite; one is TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", name)
		}
	}
}

func (h *Health) validate(p *config.Problems) {
	c := h.StorageDriver
	if c.Enabled {
		positive(p, "health.storagedriver.interval", c.Interval)
	}
	for i, f := range h.Files {
		at := item("health.file", i)
		required(p, at+".file", f.File)
	}
	for i, c := range h.HTTP {
		at := item("health.http", i)
		if u, err := url.Parse(c.URI); err != nil || u.Scheme == "" || u.Host == "" {
			p.Addf(at+".uri", "is not a URL such as http://127.0.0.1:8080/health") // not repeated: it may hold a password
		}
		headers(p, at+".headers", c.Header())
	}
	for i, c := range h.TCP {
		at := item("health.tcp", i)
		address(p, at+".addr", c.Addr)
	}
}

func (v *Validation) validate(p *config.Problems) {
	urls := v.Manifests.URLs
	for key, list := range map[string][]string{"allow": urls.Allow, "deny": urls.Deny} {
		for i, expression := range list {
			if _, err := regexp.Compile(expression); err != nil {
				p.Addf(item("validation.manifests.urls."+key, i), "%v", err)
			}
		}
	}
}

func (c *Config) validateSignatures(p *config.Problems) {
	for i, r := range c.Policy.Signatures {
		at := item("policy.signatures", i)
		names(p, at+".repositories", r.Repositories)
		if len(r.Keys)+len(r.Identities) == 0 {
			p.Addf(at+".keys", "is required, unless there are identities")
		}
		if (r.TrustedRoot == "") != (len(r.Identities) == 0) {
			p.Addf(at+".trustedroot", "is required with identities, and only with them")
		}
		for j, who := range r.Identities {
			at := item(at+".identities", j)
			required(p, at+".issuer", who.Issuer)
			required(p, at+".subject", who.Subject)
		}
		if r.Action == "refuse" && (c.Auth == nil || c.Auth.None != nil) {
			p.Addf(at+".action", "refuse needs auth: without logins, those who sign can't be told from those who pull")
		}
	}
}

func (s *Slipway) validate(p *config.Problems) {
	for i, q := range s.Quotas {
		at := item("slipway.quotas", i)
		if _, err := oci.ParseName(q.Prefix); err != nil {
			p.Addf(at+".prefix", "%q is not the name of a repository, such as team or team/app", q.Prefix)
		}
		if q.Limit <= 0 {
			p.Addf(at+".limit", "must be above 0")
		}
		if slices.ContainsFunc(s.Quotas[:i], func(x Quota) bool { return x.Prefix == q.Prefix }) {
			p.Addf(at+".prefix", "%q has another quota", q.Prefix)
		}
	}
	for key, l := range map[string]ClientLimit{"slipway.limits.user": s.Limits.User, "slipway.limits.address": s.Limits.Address} {
		if l.Burst > 0 && l.Requests == 0 {
			p.Addf(key+".burst", "does nothing without requests")
		}
	}
}

func item(key string, i int) string { return key + "[" + strconv.Itoa(i) + "]" }

func required(p *config.Problems, key, value string) {
	if value == "" {
		p.Addf(key, "is required")
	}
}

func positive(p *config.Problems, key string, d time.Duration) {
	if d <= 0 {
		p.Addf(key, "must be above 0")
	}
}

func address(p *config.Problems, key, addr string) {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = net.DefaultResolver.LookupPort(context.Background(), "tcp", port)
	}
	if err != nil || port == "" {
		p.Addf(key, "%q is not an address such as 0.0.0.0:5000", addr)
	}
}

func headers(p *config.Problems, key string, h map[string][]string) {
	for name, values := range h {
		if !httpguts.ValidHeaderFieldName(name) {
			p.Addf(key+"."+name, "%q cannot be the name of a header", name)
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldValue(value) {
				p.Addf(key+"."+name, "holds what a header cannot")
			}
		}
	}
}
