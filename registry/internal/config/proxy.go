package config

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/shared/config"
)

// Proxy makes repositories a cache of other registries: all of one (RemoteURL), or some
// of several (Upstreams).
type Proxy struct {
	RemoteURL         string          `key:"remoteurl" doc:"URL of the one registry that all repositories are a cache of, as with distribution: names are the same there, and clients can only pull."`
	Username          string          `key:"username" doc:"User name at that registry."`
	Password          config.Secret   `key:"password" doc:"Password or access token at that registry."`
	Exec              *ProxyExec      `key:"exec"`
	TTL               time.Duration   `key:"ttl" doc:"Time after which what nobody has pulled leaves the cache; 0 or less keeps it. Distribution counts from the first pull, this registry from the last."`
	TagTTL            time.Duration   `key:"tagttl" doc:"Time for which a tag is not checked again at that registry; 0 checks it at each pull, as distribution does."`
	CacheWriteTimeout time.Duration   `key:"cachewritetimeout" doc:"Time that storing a blob may take once all of it has come."`
	Upstreams         []ProxyUpstream `key:"upstreams"`
	Local             []string        `key:"local" doc:"Patterns of the repositories that take pushes although an upstream has the empty prefix: * stands for anything within one component, ** for anything."`
	Public            bool            `key:"public" doc:"Let everybody who may use this registry pull what the upstream gives to the configured user only. Without auth, an upstream with a login requires it."`
	Offline           bool            `key:"offline" doc:"Never ask an upstream; serve what the cache holds."`
	MaxSize           config.Size     `key:"maxsize" doc:"Most bytes that the caches may hold, without those that other repositories need. Above it, what was not pulled for the longest time leaves. 0 means no limit."`
	Interval          time.Duration   `key:"interval" doc:"Time between two looks at whether something has to leave the caches."`
	Sync              ProxySync       `key:"sync"`
}

// ProxyExec is a credential helper.
type ProxyExec struct {
	Command  string        `key:"command" doc:"Program that speaks the protocol of Docker's credential helpers. Required."`
	Lifetime time.Duration `key:"lifetime" doc:"How long its answer holds: 0 asks each time, less than 0 once."`
}

// ProxyUpstream is one of several registries.
type ProxyUpstream struct {
	Prefix        string        `key:"prefix" doc:"First components of the names of its repositories here, such as hub: hub/library/alpine is its library/alpine. One upstream may have none: it takes all names that no other has, except those of proxy.local."`
	RemoteURL     string        `key:"remoteurl" doc:"URL of the registry. Required."`
	Namespaces    []string      `key:"namespaces" doc:"Registries it stands for when clients say which one they want (ns=docker.io, as containerd does). Without any, the host of remoteurl."`
	Username      string        `key:"username" doc:"User name at the registry."`
	Password      config.Secret `key:"password" doc:"Password or access token at the registry."`
	Exec          *ProxyExec    `key:"exec"`
	Public        bool          `key:"public" doc:"Let everybody who may use this registry pull what the upstream gives to the configured user only. Without auth, an upstream with a login requires it."`
	TTL           time.Duration `key:"ttl" doc:"Time after which what nobody has pulled leaves the cache; 0 or less keeps it."`
	TagTTL        time.Duration `key:"tagttl" doc:"Time for which a tag is not checked again; 0 checks it at each pull."`
	Offline       bool          `key:"offline" doc:"Never ask the upstream; serve what the cache holds."`
	PullsPerHour  int           `key:"pullsperhour" doc:"Manifests fetched per hour at most; 0 means no limit."`
	MaxConns      int           `key:"maxconns" doc:"Connections at the same time; 0 means 32."`
	Timeout       time.Duration `key:"timeout" doc:"Time for an answer to begin, and for which a blob may pause."`
	CA            string        `key:"ca" doc:"File of certificates (PEM) that are trusted beside those of the system."`
	TrustedRealms []string      `key:"trustedrealms" doc:"Hosts of token servers that may get the login, beside those in the registry's own domain."`
}

// ProxySync fetches images ahead of time.
type ProxySync struct {
	Interval time.Duration `key:"interval" doc:"Time between two runs in the server; 0 means only by registry mirror sync."`
	Images   []SyncImage   `key:"images"`
}

// SyncImage is an image to fetch.
type SyncImage struct {
	Repository string   `key:"repository" doc:"Repository here, such as hub/library/alpine. Required."`
	Tags       []string `key:"tags" doc:"Regular expressions, each for the whole tag; none fetches latest."`
	Platforms  []string `key:"platforms" doc:"Platforms such as linux/amd64; none fetches all."`
}

func defaultProxy() Proxy {
	const ttl = 168 * time.Hour
	helper := func() *ProxyExec { return &ProxyExec{Lifetime: -1} }
	return Proxy{
		Exec: helper(), TTL: ttl, CacheWriteTimeout: 5 * time.Minute, Interval: time.Minute,
		Upstreams: []ProxyUpstream{{Exec: helper(), TTL: ttl, TagTTL: 5 * time.Minute, Timeout: 30 * time.Second}},
		Sync:      ProxySync{Images: []SyncImage{{}}},
	}
}

// Enabled says whether any repository is a cache.
func (p *Proxy) Enabled() bool { return p.RemoteURL != "" || len(p.Upstreams) > 0 }

// All are the upstreams, with that of RemoteURL.
func (p *Proxy) All() []ProxyUpstream {
	if p.RemoteURL == "" {
		return p.Upstreams
	}
	return []ProxyUpstream{{
		RemoteURL: p.RemoteURL, Username: p.Username, Password: p.Password, Exec: p.Exec, Public: p.Public,
		TTL: p.TTL, TagTTL: p.TagTTL, Timeout: 30 * time.Second,
	}}
}

// Login says whether the upstream gets a login.
func (u *ProxyUpstream) Login() bool { return u.Username != "" || u.Exec != nil }

// Name stands for the upstream in logs and metrics.
func (u *ProxyUpstream) Name() string {
	if u.Prefix != "" {
		return u.Prefix
	}
	if remote, err := url.Parse(u.RemoteURL); err == nil {
		return remote.Host
	}
	return "upstream"
}

func (p *Proxy) validate(problems *config.Problems, open bool) {
	if p.RemoteURL != "" && len(p.Upstreams) > 0 {
		problems.Addf("proxy.remoteurl", "is the only upstream; write it as one of proxy.upstreams, with the prefix \"\", to have several")
	}
	if !p.Enabled() {
		if p.Username != "" || p.Exec != nil {
			problems.Addf("proxy", "has a login and no remoteurl")
		}
		return
	}
	if p.RemoteURL != "" {
		one := p.All()[0]
		one.validate(problems, "proxy", open)
		if len(p.Local) > 0 {
			problems.Addf("proxy.local", "needs proxy.upstreams: with proxy.remoteurl all repositories are a cache, as with distribution")
		}
	}
	prefixes, namespaces := map[string]bool{}, map[string]bool{}
	for i := range p.Upstreams {
		u, at := &p.Upstreams[i], item("proxy.upstreams", i)
		required(problems, at+".remoteurl", u.RemoteURL)
		switch {
		case prefixes[u.Prefix] && u.Prefix == "":
			problems.Addf(at+".prefix", "is required: only one upstream may have none")
		case prefixes[u.Prefix]:
			problems.Addf(at+".prefix", "%q is that of another upstream", u.Prefix)
		}
		prefixes[u.Prefix] = true
		for _, namespace := range u.StandsFor() {
			if namespaces[namespace] && len(u.Namespaces) > 0 {
				problems.Addf(at+".namespaces", "%q is that of another upstream", namespace)
			}
			namespaces[namespace] = true
		}
		u.Public = u.Public || p.Public
		u.validate(problems, at, open)
	}
	if _, err := pattern.ParseNames(p.Local); err != nil {
		problems.Addf("proxy.local", "%v", err)
	}
	positive(problems, "proxy.interval", p.Interval)
	positive(problems, "proxy.cachewritetimeout", p.CacheWriteTimeout)
	notNegative(problems, "proxy.sync.interval", p.Sync.Interval)
	for i := range p.Sync.Images {
		p.Sync.Images[i].validate(problems, item("proxy.sync.images", i))
	}
}

func (u *ProxyUpstream) validate(p *config.Problems, at string, open bool) {
	remote, err := url.Parse(u.RemoteURL)
	switch {
	case u.RemoteURL == "":
	case err != nil || remote.Host == "" || remote.Scheme != "http" && remote.Scheme != "https" || remote.RawQuery != "" || remote.Fragment != "":
		p.Addf(at+".remoteurl", "is not a URL such as https://registry-1.docker.io") // not repeated: it may hold a password
	case remote.User != nil:
		p.Addf(at+".remoteurl", "must not hold a login: write username and password")
	case slices.Contains([]string{"hub.docker.com", "docker.com", "www.docker.com"}, remote.Host):
		p.Addf(at+".remoteurl", "is Docker's web site; the registry is %s", dockerHub)
	case u.DockerHub() && strings.Trim(remote.Path, "/") != "":
		p.Addf(at+".remoteurl", "must have no path: Docker Hub is %s", dockerHub)
	}
	if u.Prefix != "" {
		if _, err := oci.ParseName(u.Prefix); err != nil {
			p.Addf(at+".prefix", "%q cannot begin the name of a repository", u.Prefix)
		}
	}
	if u.Exec != nil {
		required(p, at+".exec.command", u.Exec.Command)
		if u.Username != "" {
			p.Addf(at+".exec", "and username exclude each other")
		}
	}
	if u.Username == "" && !u.Password.Empty() {
		p.Addf(at+".username", "is required with a password")
	}
	if u.Login() && open && !u.Public {
		p.Addf(at, "has a login, and this registry has none: what the login may pull, everybody could. Configure auth, or write public: true to mean it")
	}
	notNegative(p, at+".tagttl", u.TagTTL)
	positive(p, at+".timeout", u.Timeout)
	if u.PullsPerHour < 0 {
		p.Addf(at+".pullsperhour", "must not be negative")
	}
	if u.MaxConns < 0 {
		p.Addf(at+".maxconns", "must not be negative")
	}
}

const dockerHub = "https://registry-1.docker.io"

// DockerHub says whether the upstream is Docker Hub.
func (u *ProxyUpstream) DockerHub() bool {
	remote, err := url.Parse(u.RemoteURL)
	return err == nil && slices.Contains([]string{"registry-1.docker.io", "index.docker.io", "docker.io"}, remote.Host)
}

// StandsFor are the registries whose names clients may use for the upstream.
func (u *ProxyUpstream) StandsFor() []string {
	if len(u.Namespaces) > 0 {
		return u.Namespaces
	}
	if u.DockerHub() {
		return []string{"docker.io"}
	}
	if remote, err := url.Parse(u.RemoteURL); err == nil && remote.Host != "" {
		return []string{remote.Host}
	}
	return nil
}

func (i *SyncImage) validate(p *config.Problems, at string) {
	if _, err := oci.ParseName(i.Repository); err != nil {
		p.Addf(at+".repository", "%q is not the name of a repository", i.Repository)
	}
	tags(p, at+".tags", i.Tags)
	for _, platform := range i.Platforms {
		if parts := strings.Split(platform, "/"); len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
			p.Addf(at+".platforms", "%q is not a platform such as linux/amd64 or linux/arm/v7", platform)
		}
	}
}
