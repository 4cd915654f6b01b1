package config

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"slipway/registry/internal/pattern"

	"slipway/shared/config"
)

// warnings returns sentences about values that are valid but probably a mistake.
func (c *Config) warnings(origins map[string]string) []string {
	var all []string
	globs := func(key string, expressions []string) {
		for i, e := range expressions {
			if hint := pattern.GlobHint(e); hint != "" {
				all = append(all, item(key, i)+": "+hint)
			}
		}
	}
	for i, rule := range c.Storage.Maintenance.Immutable {
		globs(item("storage.maintenance.immutable", i)+".tags", rule.Tags)
	}
	for i, rule := range c.Storage.Maintenance.Retention.Rules {
		at := item("storage.maintenance.retention.rules", i)
		globs(at+".tags", rule.Tags)
		globs(at+".keep", rule.Keep)
	}
	for i, image := range c.Proxy.Sync.Images {
		globs(item("proxy.sync.images", i)+".tags", image.Tags)
	}
	if why := config.Weakness(c.HTTP.Secret.Reveal()); why != "" && !c.HTTP.Secret.Empty() {
		all = append(all, "http.secret: "+why+", so the state of uploads that clients carry can be forged: openssl rand -hex 32 makes one. Nothing else depends on it")
	}
	if c.Storage.Cache.BlobDescriptor == "redis" {
		all = append(all, "storage.cache.blobdescriptor redis is not used: manifests are cached in memory, as with inmemory")
	}
	all = append(all, c.Storage.Maintenance.idle(origins)...)
	if c.HTTP.Debug.Prometheus.Enabled && c.HTTP.Debug.Addr == "" {
		all = append(all, "http.debug.prometheus.enabled: has no effect without http.debug.addr")
	}
	if hint := c.HTTP.pagesHint(); hint != "" {
		all = append(all, hint)
	}
	if c.Proxy.RemoteURL != "" && c.open() && c.Proxy.All()[0].sharesLogin() {
		all = append(all, "proxy: has a login, and this registry has none: everybody can pull what that login may pull. Configure auth, or set proxy.public: true to allow it")
	}
	if i := slices.IndexFunc(c.Policy.Signatures, func(r SignatureRule) bool { return r.Action == "refuse" }); i >= 0 && c.Access == nil {
		all = append(all, item("policy.signatures", i)+".action: refuse stops only callers who may not push, and without access rules every user may push")
	}
	for i, rule := range c.Policy.Signatures {
		if j := slices.Index(rule.Identities, Identity{Issuer: "**", Subject: "**"}); j >= 0 {
			all = append(all, item(item("policy.signatures", i)+".identities", j)+": matches every identity, so anyone with a certificate of the trusted root can sign")
		}
	}
	return append(all, c.Proxy.warnings()...)
}

// idle names the jobs that are given an interval, and yet neither run nor are turned off.
func (m *Maintenance) idle(origins map[string]string) (all []string) {
	const section = "storage.maintenance."
	for _, job := range []struct {
		name    string
		enabled bool
	}{{"gc", m.GC.Enabled}, {"retention", m.Retention.Enabled}, {"verify", m.Verify.Enabled}} {
		interval, enabled := section+job.name+".interval", section+job.name+".enabled"
		if origins[interval] != "" && origins[enabled] == "" && !job.enabled {
			all = append(all, interval+": has no effect without "+enabled+": true")
		}
	}
	return all
}

// pagesHint warns of headers that seem to let pages of every origin change something.
func (h *HTTP) pagesHint() string {
	headers := http.Header{}
	for k, values := range h.Headers {
		headers[http.CanonicalHeaderKey(k)] = values
	}
	methods := strings.Join(headers.Values("Access-Control-Allow-Methods"), ",")
	if !slices.Contains(headers.Values("Access-Control-Allow-Origin"), "*") ||
		!slices.ContainsFunc([]string{"DELETE", "PUT", "PATCH", "POST"}, func(m string) bool { return strings.Contains(methods, m) }) {
		return ""
	}
	return "http.headers: with Access-Control-Allow-Origin: * pages of other sites can only read; to let one delete or push, name its origin"
}

// warnings names the upstreams whose URL already ends with the path of the API.
func (p *Proxy) warnings() []string {
	var all []string
	for i, u := range p.All() {
		at := "proxy"
		if p.RemoteURL == "" {
			at = item("proxy.upstreams", i)
		}
		if remote, err := url.Parse(u.RemoteURL); err == nil && strings.HasSuffix(strings.TrimSuffix(remote.Path, "/"), "/v2") {
			root := strings.TrimSuffix(strings.TrimSuffix(remote.String(), "/"), "/v2")
			all = append(all, at+".remoteurl: /v2/ is added to it; write "+root)
		}
	}
	return all
}
