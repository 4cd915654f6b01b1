package config

import (
	"net/url"
	"regexp"
	"slices"
	"time"

	"slipway/shared/config"
)

// Replication copies images to other registries.
type Replication struct {
	Targets []ReplicationTarget `key:"targets"`
}

// ReplicationTarget is a registry that gets copies.
type ReplicationTarget struct {
	Name         string        `key:"name" doc:"Name in commands, on pages and in metrics, of a-z, 0-9 and dashes. Required."`
	URL          string        `key:"url" doc:"URL of the registry; a path begins the names of repositories there. Required."`
	Username     string        `key:"username" doc:"User name at the registry."`
	Password     config.Secret `key:"password" doc:"Password or access token at the registry."`
	CA           string        `key:"ca" doc:"Additional trusted certificates (PEM)."`
	Repositories []string      `key:"repositories" doc:"Repository patterns. Caches are not copied."`
	OnPush       bool          `key:"onpush" doc:"Copy what is pushed right after the push."`
	Interval     time.Duration `key:"interval" min:"0" doc:"Time between two comparisons of all repositories; 0 means only by registry replication sync."`
	Deletions    bool          `key:"deletions" doc:"Delete tags at the target that don't exist here, also those that it got from elsewhere."`
}

func defaultReplication() Replication {
	return Replication{Targets: []ReplicationTarget{{OnPush: true, Interval: 24 * time.Hour}}}
}

var targetName = regexp.MustCompile(`^(?:[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?)?$`)

func (r *Replication) validate(p *config.Problems) {
	for i := range r.Targets {
		t, at := &r.Targets[i], item("replication.targets", i)
		required(p, at+".name", t.Name)
		if !targetName.MatchString(t.Name) {
			p.Addf(at+".name", "%q must be at most 40 of a-z, 0-9 and dashes", t.Name)
		}
		if slices.ContainsFunc(r.Targets[:i], func(other ReplicationTarget) bool { return t.Name != "" && t.Name == other.Name }) {
			p.Addf(at+".name", "%q is that of another target", t.Name)
		}
		required(p, at+".url", t.URL)
		remote, err := url.Parse(t.URL)
		if t.URL != "" && (err != nil || remote.Host == "" || remote.Scheme != "http" && remote.Scheme != "https" || remote.RawQuery+remote.Fragment != "" || remote.User != nil) {
			p.Addf(at+".url", "is not a URL such as https://registry.example.org, without a login") // not repeated: it may hold a password
		}
		if t.Username == "" && !t.Password.Empty() {
			p.Addf(at+".username", "is required with a password")
		}
		names(p, at+".repositories", t.Repositories)
	}
}
