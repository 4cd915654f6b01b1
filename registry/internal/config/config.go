// Package config is what the registry can be told: one struct tree with the
// keys that CNCF distribution 2.8 and 3 know for the parts this registry has,
// and some of its own.
package config

import "slipway/shared/config"

// Prefix begins the environment variables.
const Prefix = "REGISTRY"

// PathVariable names the configuration file when no argument does.
const PathVariable = "REGISTRY_CONFIGURATION_PATH"

// DefaultPath is the configuration file that is read, if it exists, when neither an argument nor the variable names one. It is the
// path in distribution's image.
const DefaultPath = "/etc/distribution/config.yml"

// Config is the whole configuration.
type Config struct {
	Version       string        `key:"version" choices:"0.1" doc:"Version of the configuration format. Required in a file."`
	Log           Log           `key:"log" doc:"The log goes to stderr, the access log to stdout."`
	Loglevel      string        `key:"loglevel" choices:"error,warn,info,debug" doc:"Old name of log.level."`
	Storage       Storage       `key:"storage" doc:"Exactly one driver: filesystem, inmemory, s3, azure or gcs."`
	Auth          *Auth         `key:"auth" doc:"Without this section everyone may do everything."`
	Access        *Access       `key:"access"`
	Audit         *Audit        `key:"audit"`
	HTTP          HTTP          `key:"http"`
	Health        Health        `key:"health" doc:"Checks behind /debug/health; while a check fails, clients may get 503."`
	Catalog       Catalog       `key:"catalog" doc:"GET /v2/_catalog."`
	Tags          Tags          `key:"tags" doc:"GET /v2/<name>/tags/list."`
	Validation    Validation    `key:"validation" doc:"Checks of pushed manifests."`
	Policy        Policy        `key:"policy"`
	Slipway       Slipway       `key:"slipway" doc:"Distribution ignores this section."`
	Proxy         Proxy         `key:"proxy" doc:"Pull-through caches."`
	Replication   Replication   `key:"replication"`
	Notifications Notifications `key:"notifications"`
	Middleware    Middleware    `key:"middleware" doc:"Changes the URLs of redirects for blobs. Off with storage.redirect.disable."`
	Reporting     config.Dead   `key:"reporting" why:"Bugsnag and New Relic are not reported to; watch the metrics and the log"`
	Redis         config.Dead   `key:"redis" why:"each replica caches manifests in its own memory, see slipway.manifests.cache"`
	Compatibility config.Dead   `key:"compatibility" why:"images of schema 1 are not supported by any current client"`
}

// Catalog bounds GET /v2/_catalog.
type Catalog struct {
	MaxEntries int `key:"maxentries" min:"0" doc:"Largest page of the catalog."`
}

// Tags bounds GET /v2/<name>/tags/list.
type Tags struct {
	MaxTags int `key:"maxtags" min:"0" doc:"Largest page of a tag list."`
}

// Policy is about what may be pushed, and what is served.
type Policy struct {
	Repository RepositoryPolicy `key:"repository"`
	Signatures []SignatureRule  `key:"signatures" doc:"Signatures that images need to be pulled. The first rule that names the repository decides; others need none. Pull-through caches are not checked."`
}

// SignatureRule names the keys and identities of which one must have signed the images of repositories.
type SignatureRule struct {
	Repositories []string   `key:"repositories" doc:"Repository patterns."`
	Keys         []string   `key:"keys" doc:"PEM files with a public key of cosign, read at the start. One of the keys or identities must have signed."`
	Identities   []Identity `key:"identities" doc:"Logins that may sign with a certificate. One of the keys or identities must have signed."`
	TrustedRoot  string     `key:"trustedroot" doc:"The trusted_root.json of the Sigstore whose certificates prove the identities, read at the start. Required with them."`
	Action       string     `key:"action" choices:"warn,refuse" doc:"For images without a valid signature: a Warning header, a warning in the event and a line in the log, or 403. Callers who may push are only warned."`
}

// Identity selects certificates by the login that they were issued for.
type Identity struct {
	Issuer  string `key:"issuer" doc:"URL of the OIDC issuer, as for cosign's --certificate-oidc-issuer. Required; * matches anything but a slash and a colon, ** anything."`
	Subject string `key:"subject" doc:"E-mail address or URL, as for cosign's --certificate-identity. Required; * and ** as in issuer."`
}

// RepositoryPolicy is about what a repository may hold.
type RepositoryPolicy struct {
	Classes []string `key:"classes" choices:"image,plugin" doc:"Classes of content that may be pushed. Default: all."`
}

// Slipway holds the settings that only this registry has.
type Slipway struct {
	Manifests   Manifests   `key:"manifests"`
	HTTP        Limits      `key:"http"`
	Quotas      []Quota     `key:"quotas"`
	Limits      Clients     `key:"limits" doc:"Limits of one client, counted by each replica. Requests above get 429."`
	ObjectStore ObjectStore `key:"objectstore"`
}

// Quota bounds the bytes under a prefix.
type Quota struct {
	Prefix string      `key:"prefix" doc:"Repository; the quota includes all below it. Required."`
	Limit  config.Size `key:"limit" doc:"Bytes of blobs, manifests and unfinished uploads; pushes beyond get 403. Required."`
}

// Clients bounds what one client may do.
type Clients struct {
	User    ClientLimit `key:"user" doc:"One user, robot, workload or certificate, from any address."`
	Address ClientLimit `key:"address" doc:"One address (IPv6: a /64), whatever login it uses; see http.trustedproxies."`
}

// ClientLimit bounds one client.
type ClientLimit struct {
	Requests int `key:"requests" min:"0" doc:"Requests a second; 0 means no limit."`
	Burst    int `key:"burst" min:"0" doc:"Requests at once after a pause; 0 means ten seconds' worth."`
	Uploads  int `key:"uploads" min:"0" doc:"Simultaneous uploads of blobs and manifests; 0 means no limit."`
}

// Manifests is about manifests in memory.
type Manifests struct {
	MaxSize config.Size `key:"maxsize" min:"1" doc:"Largest manifest; larger ones get 413."`
	Cache   config.Size `key:"cache" min:"1" doc:"Memory for recently read manifests."`
}
