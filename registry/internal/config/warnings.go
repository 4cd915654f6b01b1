package config

import (
	"net/url"
	"strings"

	"slipway/registry/internal/pattern"
)

// warnings are sentences about values that are valid and probably not meant so.
func (c *Config) warnings() []string {
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
	return append(all, c.Proxy.warnings()...)
}

// warnings names the upstreams whose URL is that of the API, to which its path would be added again.
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
