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

// Proxy configures the pull-through cache: of one registry (RemoteURL), or of several
// (Upstreams).
type Proxy struct {
	RemoteURL         string          `key:"remoteurl" doc:"URL of the only upstream, as in distribution; clients can only pull."`
	Username          string          `key:"username" doc:"User name at the registry."`
	Password          config.Secret   `key:"password" doc:"Password or access token at the registry."`
	Exec              *ProxyExec      `key:"exec"`
	TTL               time.Duration   `key:"ttl" doc:"Time from the last pull until an image leaves; 0 keeps it."`
	TagTTL            time.Duration   `key:"tagttl" min:"0" doc:"Time until a tag is checked again; 0 checks each pull."`
	CacheWriteTimeout time.Duration   `key:"cachewritetimeout" min:"1" doc:"Limit for storing a completely received blob."`
	Spool             string          `key:"spool" doc:"Local directory for blobs being fetched. Default: on the volume of storage.filesystem, or slipway.objectstore.spool."`
	SpoolMax          config.Size     `key:"spoolmax" min:"1" doc:"Limit of the spool. Blobs beyond it aren't cached."`
	Upstreams         []ProxyUpstream `key:"upstreams"`
	Namespaces        []string        `key:"namespaces" doc:"Further names of this registry itself, for clients that name the registry they want (ns=registry.example.org). http.host and the address of the request are known."`
	Local             []string        `key:"local" doc:"Patterns of repositories for pushes, if an upstream has the empty prefix."`
	Public            bool            `key:"public" doc:"Allow an upstream login without auth: everyone can pull what the login can."`
	Offline           bool            `key:"offline" doc:"Never ask upstream; serve what the cache holds."`
	MaxSize           config.Size     `key:"maxsize" doc:"Limit of all caches; least recently pulled images leave first. 0 means none."`
	Sync              ProxySync       `key:"sync"`
}

// ProxyExec is a credential helper.
type ProxyExec struct {
	Command  string        `key:"command" doc:"Docker credential helper. Required."`
	Lifetime time.Duration `key:"lifetime" doc:"Validity of its answer, until it is refused: 0 asks each time, negative has no end."`
}

// ProxyUpstream is one of several registries.
type ProxyUpstream struct {
	Prefix        string        `key:"prefix" doc:"Prefix of its repositories: with hub, hub/library/alpine is library/alpine there. One upstream may have none."`
	RemoteURL     string        `key:"remoteurl" doc:"URL of the registry. Required."`
	Namespaces    []string      `key:"namespaces" doc:"Registries it serves for clients that name one (ns=docker.io), besides the host of remoteurl."`
	Username      string        `key:"username" doc:"User name at the registry."`
	Password      config.Secret `key:"password" doc:"Password or access token at the registry."`
	Exec          *ProxyExec    `key:"exec"`
	Public        bool          `key:"public" doc:"Allow an upstream login without auth: everyone can pull what the login can."`
	TTL           time.Duration `key:"ttl" doc:"Time from the last pull until an image leaves; 0 keeps it."`
	TagTTL        time.Duration `key:"tagttl" min:"0" doc:"Time until a tag is checked again; 0 checks each pull."`
	Offline       bool          `key:"offline" doc:"Never ask upstream; serve what the cache holds."`
	Timeout       time.Duration `key:"timeout" min:"1" doc:"Wait for an answer, or for more of a blob."`
	CA            string        `key:"ca" doc:"Additional trusted certificates (PEM)."`
	TrustedRealms []string      `key:"trustedrealms" doc:"Hosts of other token servers that may get the login."`

	PrivateRedirects bool `key:"privateredirects" doc:"Follow redirects to private addresses from a public upstream."`
}

// ProxySync fetches images ahead of time.
type ProxySync struct {
	Interval time.Duration `key:"interval" min:"0" doc:"Interval in the server; 0 means only by registry mirror sync."`
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
		Exec: helper(), TTL: ttl, CacheWriteTimeout: 5 * time.Minute, SpoolMax: 16 << 30,
		Upstreams: []ProxyUpstream{{Exec: helper(), TTL: ttl, TagTTL: 5 * time.Minute, Timeout: 30 * time.Second}},
		Sync:      ProxySync{Images: []SyncImage{{}}},
	}
}

// Enabled reports whether any repository is a cache.
func (p *Proxy) Enabled() bool { return p.RemoteURL != "" || len(p.Upstreams) > 0 }

// All returns all upstreams, including that of RemoteURL.
func (p *Proxy) All() []ProxyUpstream {
	if p.RemoteURL == "" {
		return p.Upstreams
	}
	return []ProxyUpstream{{
		RemoteURL: p.RemoteURL, Username: p.Username, Password: p.Password, Exec: p.Exec, Public: p.Public,
		TTL: p.TTL, TagTTL: p.TagTTL, Timeout: 30 * time.Second,
	}}
}

// sharesLogin reports whether a registry without authentication gives everybody what the
// upstream gives to the configured user, without the operator having allowed it.
func (u *ProxyUpstream) sharesLogin() bool { return (u.Username != "" || u.Exec != nil) && !u.Public }

// Name is the upstream's name in logs, metrics, and messages to clients.
func (u *ProxyUpstream) Name() string {
	if u.Prefix != "" {
		return u.Prefix
	}
	if remote, err := url.Parse(u.RemoteURL); err == nil {
		return remote.Host
	}
	return "upstream"
}

// refuseIgnored reports settings that nothing would read, and where they belong.
func (p *Proxy) refuseIgnored(problems *config.Problems) {
	d := defaultProxy()
	refuse := func(key string, set bool) {
		switch {
		case !set || p.RemoteURL != "":
		case len(p.Upstreams) > 0:
			problems.Addf("proxy."+key, "belongs to an upstream; set proxy.upstreams[].%s instead", key)
		default:
			problems.Addf("proxy."+key, "has no effect without proxy.remoteurl")
		}
	}
	refuse("username", p.Username != "")
	refuse("password", !p.Password.Empty())
	refuse("exec", p.Exec != nil)
	refuse("ttl", p.TTL != d.TTL)
	refuse("tagttl", p.TagTTL != d.TagTTL)
	if p.Enabled() {
		return
	}
	for key, set := range map[string]bool{
		"cachewritetimeout": p.CacheWriteTimeout != d.CacheWriteTimeout, "maxsize": p.MaxSize != d.MaxSize, "spool": p.Spool != "", "spoolmax": p.SpoolMax != d.SpoolMax,
		"namespaces": len(p.Namespaces) > 0, "local": len(p.Local) > 0, "public": p.Public, "offline": p.Offline, "sync": p.Sync.Interval != 0 || len(p.Sync.Images) > 0,
	} {
		if set {
			problems.Addf("proxy."+key, "has no effect without an upstream; set proxy.remoteurl or proxy.upstreams")
		}
	}
}

func (p *Proxy) validate(problems *config.Problems, open bool) {
	if p.RemoteURL != "" && len(p.Upstreams) > 0 {
		problems.Addf("proxy.remoteurl", "is the only upstream; write it as one of proxy.upstreams, with the prefix \"\", to have several")
	}
	p.refuseIgnored(problems)
	if !p.Enabled() {
		return
	}
	if p.RemoteURL != "" {
		one := p.All()[0]
		one.validate(problems, "proxy")
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
		u.validate(problems, at)
		if open && u.sharesLogin() {
			problems.Addf(at, "has a login, and this registry has none: everybody could pull what that login may pull. Configure auth, or set public: true to allow it")
		}
	}
	if _, err := pattern.ParseNames(p.Local); err != nil {
		problems.Addf("proxy.local", "%v", err)
	}
	for i := range p.Sync.Images {
		p.Sync.Images[i].validate(problems, item("proxy.sync.images", i))
	}
}

func (u *ProxyUpstream) validate(p *config.Problems, at string) {
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
			p.Addf(at+".exec", "use exec or username, not both")
		}
	}
	if u.Username == "" && !u.Password.Empty() {
		p.Addf(at+".username", "is required with a password")
	}
}

const dockerHub = "https://registry-1.docker.io"

// DockerHub reports whether the upstream is Docker Hub.
func (u *ProxyUpstream) DockerHub() bool {
	remote, err := url.Parse(u.RemoteURL)
	return err == nil && slices.Contains([]string{"registry-1.docker.io", "index.docker.io", "docker.io"}, remote.Host)
}

// StandsFor returns the values of the ns parameter that mean this upstream.
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
