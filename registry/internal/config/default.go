package config

import (
	"time"

	"slipway/shared/config"
)

// Default returns the configuration with every default, also those of optional
// sections and, as the first element, of lists. Loading leaves in it only what
// is given.
func Default() Config {
	return Config{
		Version: "0.1",
		Log: Log{
			Level:     "info",
			Formatter: "text",
			Fields:    map[string]any{"service": "registry"},
		},
		Storage: defaultStorage(),
		Auth: &Auth{
			HTPasswd: &HTPasswd{CacheTTL: time.Minute},
			Token:    &TokenAuth{AutoRedirectPath: "/auth/token"},
			Service: &TokenService{Builtin: &BuiltinService{
				Service: "registry", Lifetime: 5 * time.Minute, RefreshLifetime: 30 * 24 * time.Hour,
			}},
			OIDC: &OIDC{Name: "single sign-on", Scopes: []string{"profile", "email"}, NameClaim: "preferred_username", GroupsClaim: "groups"},
			None: &None{},
		},
		Access:  &Access{},
		Audit:   &Audit{},
		HTTP:    defaultHTTP(),
		Health:  defaultHealth(),
		Catalog: Catalog{MaxEntries: 1000},
		Tags:    Tags{MaxTags: 1000},
		Validation: Validation{
			Manifests: ValidatedManifests{Indexes: Indexes{Platforms: "all"}},
		},
		Policy:        Policy{Signatures: []SignatureRule{{Action: "refuse"}}},
		Notifications: defaultNotifications(),
		Replication:   defaultReplication(),
		Middleware:    defaultMiddleware(),
		Proxy:         defaultProxy(),
		Slipway: Slipway{
			Manifests:   Manifests{MaxSize: 4 << 20, Cache: 16 << 20},
			ObjectStore: ObjectStore{SpoolMax: 128 << 20},
			HTTP: Limits{
				StallTimeout: time.Minute,
				MinRate:      128,
			},
		},
	}
}

func defaultStorage() Storage {
	return Storage{
		Filesystem: &Filesystem{RootDirectory: "/var/lib/registry"},
		InMemory:   &InMemory{},
		S3:         defaultS3(),
		Azure:      &Azure{Realm: "core.windows.net"},
		GCS:        &GCS{},
		Redirect:   Redirect{Exclude: []string{}},
		Cache:      Cache{BlobDescriptor: "inmemory"},
		Maintenance: Maintenance{
			UploadPurging: UploadPurging{Enabled: true, Age: 168 * time.Hour, Interval: 24 * time.Hour},
			GC:            GC{Interval: 24 * time.Hour, Age: time.Hour},
			Retention:     Retention{Interval: 24 * time.Hour, Rules: []RetentionRule{{Action: "keep"}}},
			Verify:        Verification{Interval: 168 * time.Hour, Rate: 32 << 20},
		},
	}
}

func defaultHTTP() HTTP {
	return HTTP{
		Addr:           "0.0.0.0:5000",
		Net:            "tcp",
		Secret:         config.Secret{},
		TrustedProxies: []string{},
		DrainTimeout:   30 * time.Second,
		Headers:        map[string][]string{"X-Content-Type-Options": {"nosniff"}},
		UI:             UI{Enabled: true},
		TLS:            &TLS{MinimumTLS: "tls1.2"},
		Debug:          Debug{Prometheus: Prometheus{Path: "/metrics"}},
	}
}

func defaultHealth() Health {
	const interval = 10 * time.Second
	return Health{
		StorageDriver: StorageCheck{Enabled: true, Interval: interval, Threshold: 3},
		Files:         []FileCheck{{Interval: interval}},
		HTTP:          []HTTPCheck{{StatusCode: 200, Interval: interval}},
		TCP:           []TCPCheck{{Interval: interval}},
	}
}
