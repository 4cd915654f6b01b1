package config

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"slipway/shared/config"
)

// minimal is the least file that starts.
const minimal = "version: 0.1\nstorage: {inmemory: {}}\n"

func loadText(t *testing.T, text string, environ ...string) (*Config, *config.Report, error) {
	t.Helper()
	return load(config.Options{File: "c.yml", Source: []byte(text), Environ: environ})
}

// onS3 is the least file with a bucket.
const onS3 = "version: 0.1\nstorage: {s3: {bucket: b, region: r}}\n"

// TestVariables holds aliases, and the forms that distribution documents or panics on. TestEveryLeafByVariable has the others.
func TestVariables(t *testing.T) {
	endpoint := func(c *Config) any {
		return []string{c.Notifications.Endpoints[0].Name, c.Notifications.Endpoints[0].URL}
	}
	for _, tt := range []struct {
		environ []string
		got     func(*Config) any
		want    any
	}{
		{[]string{"REGISTRY_LOGLEVEL=error"}, func(c *Config) any { return c.Log.Level }, "error"},
		{[]string{"REGISTRY_AUTH=htpasswd", "REGISTRY_AUTH_HTPASSWD_REALM=r", "REGISTRY_AUTH_HTPASSWD_PATH=/p"}, func(c *Config) any { return *c.Auth.HTPasswd }, HTPasswd{Realm: "r", Path: "/p", CacheTTL: time.Minute}},
		{[]string{`REGISTRY_STORAGE_MAINTENANCE_READONLY={"enabled":true}`}, func(c *Config) any { return c.Storage.Maintenance.ReadOnly.Enabled }, true},
		{[]string{"REGISTRY_HEALTH_TCPCHECKERS_0_ADDR=h:1"}, func(c *Config) any { return c.Health.TCP }, []TCPCheck{{Addr: "h:1", Interval: 10 * time.Second}}},
		{[]string{"REGISTRY_HEALTH_HTTPCHECKERS_0_URI=http://h"}, func(c *Config) any { return c.Health.HTTP[0].StatusCode }, 200},
		{[]string{"REGISTRY_HEALTH_FILECHECKERS_0_FILE=/f"}, func(c *Config) any { return c.Health.Files[0].File }, "/f"},
		{[]string{"REGISTRY_STORAGE_CACHE_LAYERINFO=inmemory"}, func(c *Config) any { return c.Storage.Cache.BlobDescriptor }, "inmemory"},
		{[]string{"REGISTRY_NOTIFICATIONS_EVENTCONFIG_INCLUDEREFERENCES=true"}, func(c *Config) any { return c.Notifications.Events.IncludeReferences }, true},
		{[]string{"REGISTRY_NOTIFICATIONS_ENDPOINTS=[{name: n, url: 'http://h/'}]"}, endpoint, []string{"n", "http://h/"}},
		{[]string{"REGISTRY_NOTIFICATIONS_ENDPOINTS_0_NAME=n", "REGISTRY_NOTIFICATIONS_ENDPOINTS_0_URL=http://h/"}, endpoint, []string{"n", "http://h/"}},
		{[]string{"REGISTRY_STORAGE=s3", "REGISTRY_STORAGE_S3_BUCKET=b", "REGISTRY_STORAGE_S3AWS_REGION=r"}, func(c *Config) any { return []string{c.Storage.S3.Bucket, c.Storage.S3.Region} }, []string{"b", "r"}},
		{[]string{"REGISTRY_HTTP_HEADERS_X-CONTENT-TYPE-OPTIONS=[a]"}, func(c *Config) any { return c.HTTP.Headers }, map[string][]string{"X-Content-Type-Options": {"a"}}},
		{[]string{"REGISTRY_LOG_HOOKS_0_MAILOPTIONS_FROM=x", "REGISTRY_COMPATIBILITY_SCHEMA1_TRUSTKEY=/k", "REGISTRY_OTHER=y", "REGISTRY_VERSION=0.2"}, func(c *Config) any { return c.Version }, "0.1"},
	} {
		c, _, err := loadText(t, minimal+"http: {headers: {X-Content-Type-Options: [nosniff]}}", tt.environ...)
		if err != nil {
			t.Errorf("%s: %v", tt.environ, err)
		} else if got := tt.got(c); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %#v, want %#v", tt.environ, got, tt.want)
		}
	}
}

// TestEveryLeafByVariable: no setting can be given in the file only.
func TestEveryLeafByVariable(t *testing.T) {
	sample := map[string]string{
		"boolean": "true", "integer": "7", "duration": "7s", "size": "7MiB", "secret": "a-secret-of-20-chars", "string": "/s",
		"list of string": "[/s]", "map of any value": "{a: b}", "map of string": "{a: b}", "map of list of string": "{A: [b]}", "map of list of secret": "{A: [b]}", "map of secret": "{a: b}", "section": "{}",
	}
	defaults := Default()
	for _, leaf := range config.Walk(&defaults) {
		if leaf.Type == "" || leaf.Path == "version" {
			continue
		}
		value, ok := sample[leaf.Type]
		if !ok {
			t.Errorf("%s: no sample of %s", leaf.Path, leaf.Type)
		}
		if len(leaf.Choices) > 0 {
			value = leaf.Choices[0]
		}
		name := Prefix + "_" + strings.ToUpper(strings.NewReplacer(".", "_", "[]", "_0").Replace(leaf.Path))
		_, report, err := loadText(t, minimal, name+"="+value)
		path := strings.ReplaceAll(leaf.Path, "[]", "[0]")
		if got := report.Origins[path]; got != name {
			t.Errorf("%s: origin %q, %v", name, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "is not a setting") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRefused holds the sentences that stop a start.
func TestRefused(t *testing.T) {
	tests := []struct {
		text    string
		environ []string
		want    string
	}{
		{"storage: {inmemory: {}}", nil, "version: is missing; write `version: 0.1` (c.yml)"},
		{"", nil, "version: is missing; write `version: 0.1` (c.yml)\nstorage: names no driver: filesystem, s3, azure, gcs or inmemory"},
		{"version: 0.2\nstorage: {inmemory: {}}", nil, `version: "0.2" is not one of 0.1 (c.yml:1)`},
		{"version: 0.1", nil, "storage: names no driver"},
		{"version: 0.1\nstorage: {delete: {enabled: true}}", nil, "storage: names no driver: filesystem, s3, azure, gcs or inmemory (c.yml:2)"},
		{"version: 0.1\nstorage: {filesystem: {}, inmemory: }", nil, "storage: names several drivers: filesystem, inmemory"},
		{minimal + "auth:\n", nil, "auth: names nothing; write auth: none"},
		{minimal + "auth: {}\n", nil, "auth: names nothing"},
		{minimal + "auth:\n  htpasswd:\n", nil, "auth.htpasswd.realm: is required; any name, such as \"Registry\" (c.yml:4)\nauth.htpasswd.path: is required (c.yml:4)"},
		{minimal + "auth: {htpasswd: {realm: r}}", nil, "auth.htpasswd.path: is required"},
		{minimal + "auth: {htpasswd: {realm: r, path: p}, none: {}}", nil, "auth: none can't stand beside another kind"},
		{minimal + "path: p", nil, "path: is not a setting; did you mean auth? (c.yml:3)"},
		{minimal + "slipway: {quotas: [{prefix: a, repositories: [a], limit: 1}]}", nil, "slipway.quotas[0].repositories: is not a setting (c.yml:3)"},
		{minimal + "access: {rules: [{who: [users], repositories: [a], actions: [pull]}]}", nil, "access.rules[0].actions: is not a setting (c.yml:3)"},
		{minimal + "auth: {htpasswd: {realm: r, path: p, user: u}}", nil, "auth.htpasswd.user: is not a setting (c.yml:3)"},
		{minimal, []string{"REGISTRY_AUTH_HTPASSWORD_PATH=p"}, "REGISTRY_AUTH_HTPASSWORD_PATH: is not a setting; did you mean REGISTRY_AUTH_HTPASSWD_PATH?\nauth: names nothing"},
		{minimal + "auth: {htpaswd: {realm: r, path: p}}", nil, "auth.htpaswd: is not a setting; did you mean auth.htpasswd? (c.yml:3)"},
		{minimal + "auht: {htpasswd: {realm: r, path: p}}", nil, "auht: is not a setting; did you mean auth? (c.yml:3)"},
		{minimal + "auth: {silly: {realm: r}}", nil, "auth.silly: is not supported: it accepts any Authorization header"},
		{minimal + "auth: {token: {realm: r, service: s, issuer: i}}", nil, "auth.token: needs rootcertbundle or jwks"},
		{minimal + "auth: {token: {jwks: f}}", nil, "auth.token.realm: is required (c.yml:3)\nauth.token.service: is required (c.yml:3)\nauth.token.issuer: is required"},
		{minimal + "auth: {token: {autoredirect: true, autoredirectpath: x, service: s, issuer: i, jwks: f}}", nil, "auth.token.autoredirectpath: must begin with a slash"},
		{minimal + "auth: {token: {realm: r, service: s, issuer: i, jwks: f, signingalgorithms: [none]}}", nil, `"none" is not one of EdDSA`},
		{minimal + "auth: {token: {realm: r, service: s, issuer: i, jwks: f}, htpasswd: {realm: r, path: p}}", nil, "auth: names token beside htpasswd, oidc or service"},
		{minimal + "auth: {service: {builtin: {lifetime: 2h}}}", nil, "auth.service.builtin.lifetime: must be from 1m to 1h"},
		{minimal + "auth: {service: {builtin: {workloads: [{name: w, issuer: 'http://example.org', audience: a, claims: {a: b}, repositories: [x], allow: [pull]}]}}}", nil, "auth.service.builtin.workloads[0].issuer: must be an https URL"},
		{minimal + "auth: {service: {builtin: {workloads: [{name: w, issuer: 'https://example.org', audience: a, repositories: [x], allow: [pull]}]}}}", nil, "auth.service.builtin.workloads[0].claims: is required"},
		{minimal + "auth: {htpasswd: {realm: r, path: p, anonymouspull: true}}\naccess: {rules: [{who: [users], repositories: [a], allow: [pull]}]}", nil, "auth.htpasswd.anonymouspull: does nothing beside an access section"},
		{minimal + "audit: {}", nil, "audit: names no place: write file or stdout"},
		{minimal + "replication: {targets: [{url: 'https://b.example.org', repositories: [a]}]}", nil, "replication.targets[0].name: is required"},
		{minimal + "replication: {targets: [{name: B, url: 'https://b.example.org', repositories: [a]}]}", nil, "must be at most 40 of a-z"},
		{minimal + "replication: {targets: [{name: b, url: 'https://b.example.org', repositories: [a]}, {name: b, url: 'https://b.example.org', repositories: [a]}]}", nil, "replication.targets[1].name: \"b\" is that of another target"},
		{minimal + "replication: {targets: [{name: b, url: 'https://b.example.org'}]}", nil, "replication.targets[0].repositories: is required"},
		{minimal + "replication: {targets: [{name: b, url: b.example.org, repositories: [a]}]}", nil, "replication.targets[0].url: is not a URL"},
		{minimal + "replication: {targets: [{name: b, url: 'https://u:secret@b.example.org', repositories: [a]}]}", nil, "replication.targets[0].url: is not a URL such as https://registry.example.org, without a login"},
		{minimal + "replication: {targets: [{name: b, url: 'https://b.example.org', repositories: [a], password: p}]}", nil, "replication.targets[0].username: is required with a password"},
		{minimal + "access: {}", nil, "access: has no rules"},
		{minimal + "access: {file: f, rules: [{who: [users], repositories: [a], allow: [pull]}]}", nil, "access: names a file beside groups or rules"},
		{minimal + "access: {rules: [{who: [group:a], repositories: [a], allow: [pull]}]}", nil, `access.rules[0]: there is no group "a"`},
		{minimal + "access: {rules: [{who: [users], repositories: [A], allow: [pull]}]}", nil, `access.rules[0].repositories: "A" is not a pattern`},
		{minimal + "access: {rules: [{who: [users], repositories: [/release/**], allow: [pull]}]}", nil, `access.rules[0].repositories: "/release/**" can match no repository; write release/**`},
		{minimal + "access: {rules: [{who: [anonymous], repositories: [a], allow: [pull]}]}", nil, `access.rules[0]: "anonymous" is not a caller; write anyone`},
		{minimal + "access: {rules: [{who: [users], repositories: [a]}]}", nil, "access.rules[0]: allow or deny is required"},
		{minimal + "access: {rules: [{who: [users], repositories: [a], allow: [pull], deny: [pull]}]}", nil, "access.rules[0]: pull is allowed and denied"},
		{minimal, []string{"REGISTRY_AUHT_HTPASSWD_PATH=p"}, "REGISTRY_AUHT_HTPASSWD_PATH: is not a setting; did you mean REGISTRY_AUTH_HTPASSWD_PATH?"},
		{minimal, []string{"REGISTRY_HTTP_NOTHING=1"}, "REGISTRY_HTTP_NOTHING: is not a setting"},
		{minimal, []string{"REGISTRY_STORAGE_PATH=/x"}, "REGISTRY_STORAGE_PATH: is not a setting"},
		{"version: 0.1\nstorage: {inmemory: {}, maintenance: {uploadpurging: {enabled: false, age: -1h}}}", nil, "storage.maintenance.uploadpurging.age: must not be negative"},
		{"version: 0.1\nstorage: {inmemory: {}, maintenance: {gc: {age: -1h}}}", nil, "storage.maintenance.gc.age: must not be negative"},
		{"version: 0.1\nstorage: {s3: {bucket: b}}", nil, "storage.s3.region: is missing (c.yml:2)"},
		{"version: 0.1\nstorage: {s3aws: {region: r}}", nil, "storage.s3.bucket: is required"},
		{"version: 0.1\nstorage: {s3: {bucket: b, region: r, accesskey: a}}", nil, "storage.s3.secretkey: and accesskey belong together: give both or none"},
		{"version: 0.1\nstorage: {s3: {bucket: b, region: r, v4auth: false}}", nil, "storage.s3.v4auth: must be true: signature version 2 is not supported"},
		{"version: 0.1\nstorage: {s3: {bucket: b, region: r, keyid: k}}", nil, "storage.s3.keyid: has no effect without encrypt: true"},
		{"version: 0.1\nstorage: {s3: {bucket: b, region: r, redirectendpoint: images.example.com/x}}", nil, "storage.s3.redirectendpoint: "},
		{"version: 0.1\nstorage: {inmemory: , redirect: {exclude: [10.0.0.0/8, elsewhere]}}", nil, `storage.redirect.exclude: "elsewhere" must be an address, or a network such as 10.0.0.0/8`},
		{"version: 0.1\nstorage: {azure: {container: registry}}", nil, "storage.azure.accountname: is required"},
		{"version: 0.1\nstorage: {azure: {accountname: a, container: A, accountkey: k}}", nil, `storage.azure.container: "A" cannot be the name of a container`},
		{"version: 0.1\nstorage: {azure: {accountname: a, container: abc, credentials: {type: client_secret, clientid: c, tenantid: t}}}", nil, "storage.azure.credentials.secret: is required"},
		{"version: 0.1\nstorage: {azure: {accountname: a, container: abc, credentials: {type: shared_key}}}", nil, "storage.azure.accountkey: is required"},
		{"version: 0.1\nstorage: {azure: {accountname: a, container: abc, credentials: {type: password}}}", nil, `storage.azure.credentials.type: "password" is not one of`},
		{"version: 0.1\nstorage: {azure: {accountname: a, container: abc, accountkey: k, rootdirectory: a/../b}}", nil, "storage.azure.rootdirectory:"},
		{"version: 0.1\nstorage: {gcs: {}}", nil, "storage.gcs.bucket: is required"},
		{"version: 0.1\nstorage: {gcs: {bucket: b, keyfile: k, credentials: {type: service_account}}}", nil, "storage.gcs.keyfile: is given beside credentials; keep one"},
		{"version: 0.1\nstorage: {swift: {a: b}, inmemory: }", nil, "storage.swift: is not supported"},
		{"version: 0.1\nstorage: {oss: {a: b}, inmemory: }", nil, "storage.oss: is not supported"},
		{minimal, []string{"REGISTRY_STORAGE_S3_BUCKET=b"}, "storage: names several drivers: inmemory, s3; REGISTRY_STORAGE=<driver> would replace the section of the file (c.yml:2)\nstorage.s3.region: is missing (REGISTRY_STORAGE_S3_BUCKET)"},
		{minimal + "proxy: {remoteurl: registry-1.docker.io}", nil, "proxy.remoteurl: is not a URL such as https://registry-1.docker.io"},
		{minimal, []string{"REGISTRY_PROXY_REMOTEURL=ftp://x"}, "proxy.remoteurl: is not a URL such as https://registry-1.docker.io (REGISTRY_PROXY_REMOTEURL)"},
		{minimal + "proxy: {remoteurl: 'https://u:p@x'}", nil, "proxy.remoteurl: must not hold a login"},
		{minimal + "proxy: {username: u}", nil, "proxy.username: has no effect without proxy.remoteurl"},
		{minimal + "proxy: {ttl: 1h, upstreams: [{prefix: a, remoteurl: https://x}]}", nil, "proxy.ttl: belongs to an upstream; set proxy.upstreams[].ttl instead"},
		{minimal + "proxy: {tagttl: 1h, upstreams: [{prefix: a, remoteurl: https://x}]}", nil, "proxy.tagttl: belongs to an upstream; set proxy.upstreams[].tagttl instead"},
		{minimal + "proxy: {username: u, upstreams: [{prefix: a, remoteurl: https://x}]}", nil, "proxy.username: belongs to an upstream; set proxy.upstreams[].username instead"},
		{minimal + "proxy: {password: p, upstreams: [{prefix: a, remoteurl: https://x}]}", nil, "proxy.password: belongs to an upstream; set proxy.upstreams[].password instead"},
		{minimal + "proxy: {exec: {command: c}, upstreams: [{prefix: a, remoteurl: https://x}]}", nil, "proxy.exec: belongs to an upstream; set proxy.upstreams[].exec instead"},
		{minimal + "proxy: {ttl: 1h}", nil, "proxy.ttl: has no effect without proxy.remoteurl"},
		{minimal + "proxy: {cachewritetimeout: 1m}", nil, "proxy.cachewritetimeout: has no effect without an upstream; set proxy.remoteurl or proxy.upstreams"},
		{minimal + "proxy: {maxsize: 1GiB}", nil, "proxy.maxsize: has no effect without an upstream"},
		{minimal + "proxy: {namespaces: [registry.example.org]}", nil, "proxy.namespaces: has no effect without an upstream"},
		{minimal + "proxy: {interval: 1s}", nil, "proxy.interval"},
		{minimal + "auth: none\nproxy: {upstreams: [{prefix: a, remoteurl: https://x, exec: {command: h}}]}", nil, "proxy.upstreams[0]: has a login, and this registry has none"},
		{minimal + "proxy: {remoteurl: https://x, upstreams: [{prefix: a, remoteurl: https://y}]}", nil, "proxy.remoteurl: is the only upstream"},
		{minimal + "proxy: {remoteurl: https://x, local: [a]}", nil, "proxy.local: needs proxy.upstreams"},
		{minimal + "proxy: {remoteurl: https://x, public: true, username: u, password: p, exec: {command: h}}", nil, "proxy.exec: use exec or username, not both"},
		{minimal + "proxy: {upstreams: [{prefix: Hub, remoteurl: https://x}]}", nil, `proxy.upstreams[0].prefix: "Hub" cannot begin the name of a repository`},
		{minimal + "proxy: {upstreams: [{prefix: hub}]}", nil, "proxy.upstreams[0].remoteurl: is required"},
		{minimal + "proxy: {upstreams: [{remoteurl: https://x}, {remoteurl: https://y}]}", nil, "proxy.upstreams[1].prefix: is required: only one upstream may have none"},
		{minimal + "proxy: {upstreams: [{prefix: a, remoteurl: https://x}, {prefix: a, remoteurl: https://y}]}", nil, `proxy.upstreams[1].prefix: "a" is that of another upstream`},
		{minimal + "proxy: {remoteurl: https://hub.docker.com}", nil, "proxy.remoteurl: is Docker's web site; the registry is https://registry-1.docker.io (c.yml:3)"},
		{minimal + "proxy: {upstreams: [{prefix: hub, remoteurl: https://registry-1.docker.io/v2/}]}", nil, "proxy.upstreams[0].remoteurl: must have no path: Docker Hub is https://registry-1.docker.io (c.yml:3)"},
		{minimal + "proxy: {upstreams: [{prefix: a, remoteurl: https://x, tagttl: -1s}]}", nil, "proxy.upstreams[0].tagttl: must not be negative"},
		{minimal + "proxy: {upstreams: [{prefix: a, remoteurl: https://x}], sync: {images: [{repository: a/b, platforms: [linux]}]}}", nil, `proxy.sync.images[0].platforms: "linux" is not a platform`},
		{minimal + "middleware: {storage: [{name: fastly}]}", nil, `middleware.storage[0].name: "fastly" is not one of redirect, rewrite, cloudfront (c.yml:3)`},
		{minimal + "middleware: {storage: [{name: rewrite, options: {scheme: ftp}}]}", nil, `middleware.storage[0].options.scheme: "ftp" is neither http nor https`},
		{minimal + "middleware: {storage: [{name: cloudfront, options: {baseurl: d.cloudfront.net, privatekey: /k, keypairid: K}}]}", nil, "middleware.storage[0].name: cloudfront stands before storage.s3 only"},
		{onS3 + "middleware: {storage: [{name: cloudfront, options: {baseurl: '?', duration: 0, ipfilteredby: awsregion, iprangesurl: x}}]}", nil, "middleware.storage[0].options.duration: must be above 0 (c.yml:3)\nmiddleware.storage[0].options.baseurl: \"?\" is not a URL such as https://d111111abcdef8.cloudfront.net (c.yml:3)\n" +
			"middleware.storage[0].options.privatekey: is required (c.yml:3)\nmiddleware.storage[0].options.keypairid: is required (c.yml:3)\n" +
			"middleware.storage[0].options.awsregion: is required for ipfilteredby: awsregion (c.yml:3)\nmiddleware.storage[0].options.iprangesurl: \"x\" is not a URL (c.yml:3)"},
		{minimal + "middleware: {storage: [{disabled: true}]}", nil, "middleware.storage[0].name: is required"},
		{minimal + "middleware: {registry: [{name: own}]}", nil, "middleware.registry: is not supported: there is none"},
		{minimal + "middleware: {storage: [{name: redirect, options: {baseurl: cdn.example.com}}]}", nil, `middleware.storage[0].options.baseurl: "cdn.example.com" is not a URL`},
		{minimal + "middleware: {storage: [{name: rewrite, options: {host: h/x}}]}", nil, `middleware.storage[0].options.host: "h/x" is not a host`},
		{minimal + "policy: {repository: {classes: [picture]}}", nil, `policy.repository.classes[0]: "picture" is not one of image, plugin (c.yml:3)`},
		{minimal + "http: {tls: {letsencrypt: {hosts: [localhost]}}}", nil, `http.tls.letsencrypt.hosts[0]: "localhost" must be a full name in lower case`},
		{minimal + "http: {tls: {letsencrypt: {hosts: ['*.example.org']}}}", nil, `http.tls.letsencrypt.hosts[0]: "*.example.org" must be a full name`},
		{minimal + "http: {tls: {letsencrypt: {hosts: ['a.example.org:443']}}}", nil, `http.tls.letsencrypt.hosts[0]: "a.example.org:443" must be a full name`},
		{minimal + "http: {tls: {letsencrypt: {cachefile: /c}}}", nil, "http.tls.letsencrypt.hosts: is required"},
		{minimal + "http: {tls: {letsencrypt: {hosts: [a.example.org], directoryurl: 'http://a.example.org'}}}", nil, `http.tls.letsencrypt.directoryurl: "http://a.example.org" is not a URL such as https://`},
		{minimal + "http: {tls: {certificate: c, key: k, letsencrypt: {hosts: [a.example.org]}}}", nil, "http.tls.letsencrypt: is in place of certificate and key"},
		{"log: {fields: {a: {b: c}}}\nstorage: inmemory", []string{"REGISTRY_LOG_FIELDS_X={y: {z: 1}}"}, "version: is missing"},
		{minimal + "http: {tls: {certificate: c}}", nil, "http.tls: needs certificate and key"},
		{minimal + "http: {tls: }", nil, "http.tls: needs certificate and key"},
		{minimal + "http: {tls: {certificate: c, key: k, ciphersuites: [X]}}", nil, `http.tls.ciphersuites: "X" is no cipher suite`},
		{minimal + "http: {tls: {certificate: c, key: k, clientauth: require-and-verify-client-cert}}", nil, "http.tls.clientauth: needs clientcas"},
		{minimal + "http: {tls: {certificate: c, key: k, clientauth: require-any-client-cert}}", nil, "http.tls.clientauth: needs clientcas"}, // distribution ignores it
		{minimal + "slipway: {manifests: {cache: 0}}", nil, "slipway.manifests.cache: must be above 0"},
		{minimal + "http: {tls: {certificate: c, key: k, minimumtls: ssl3}}", nil, `http.tls.minimumtls: "ssl3" is not one of`},
		{minimal + "http: {addr: '5000'}", nil, `http.addr: "5000" is not an address such as 0.0.0.0:5000 (c.yml:3)`},
		{minimal + "http: {addr: 'h:99999'}", nil, "http.addr:"},
		{minimal + "http: {addr: ''}", nil, "http.addr:"},
		{minimal + "http: {debug: {addr: x}}", nil, "http.debug.addr:"},
		{minimal + "http: {host: registry.example.org}", nil, "http.host:"},
		{minimal + "http: {host: 'https://registry.example.org/v2'}", nil, "http.host: must not end with /v2, which is added to it (c.yml:3)"},
		{minimal + "http: {prefix: reg}", nil, "http.prefix: must begin with a slash"},
		{minimal + "http: {draintimeout: 5}", nil, "http.draintimeout: \"5\" is not a duration such as 10s, 5m, 12h or 7d"},
		{minimal + "http: {trustedproxies: [10.0.0.0/8, proxy]}", nil, `http.trustedproxies: "proxy" must be an address, a network such as 10.0.0.0/8, or unix (c.yml:3)`},
		{minimal + "http: {draintimeout: -5s}", nil, "http.draintimeout: must not be negative"},
		{minimal + "http: {headers: {'X Y': [a]}}", nil, `http.headers.X Y: "X Y" cannot be the name of a header`},
		{minimal + "http: {headers: {X: [\"a\\nb\"]}}", nil, "http.headers.X: holds what a header cannot"},
		{minimal + "log: {level: trace}", nil, `log.level: "trace" is not one of error, warn, info, debug`},
		{minimal + "log: {formatter: xml}", nil, "log.formatter:"},
		{minimal + "storage: {inmemory: {}}", nil, "c.yml: not YAML: line 3: mapping key \"storage\" already defined at line 2"},
		{"version: 0.1\nstorage: {inmemory: {}, cache: {blobdescriptor: x}}", nil, "storage.cache.blobdescriptor:"},
		{"version: 0.1\nstorage: {inmemory: {}, maintenance: {immutable: [{repositories: [Prod], tags: [v1]}]}}", nil, `storage.maintenance.immutable[0].repositories: "Prod" is not a pattern of repositories`},
		{"version: 0.1\nstorage: {inmemory: {}, maintenance: {immutable: [{repositories: [prod]}]}}", nil, "storage.maintenance.immutable[0].tags: is required"},
		{"version: 0.1\nstorage: {inmemory: {}, maintenance: {retention: {enabled: true}}}", nil, "storage.maintenance.retention.rules: is required"},
		{"version: 0.1\nstorage: {inmemory: {}, maintenance: {retention: {rules: [{repositories: [a], newest: 3}]}}}", nil, "storage.maintenance.retention.rules[0].action: is keep, which keeps all tags"},
		{"version: 0.1\nstorage: {inmemory: {}, maintenance: {retention: {rules: [{repositories: [a], action: delete}]}}}", nil, "storage.maintenance.retention.rules[0]: would delete every tag"},
		{"version: 0.1\nstorage: {inmemory: {}, maintenance: {retention: {rules: [{action: delete, tags: [v1]}]}}}", nil, `storage.maintenance.retention.rules[0].repositories: is required; "**" is all`},
		{"version: 0.1\nstorage: {inmemory: {}, maintenance: {verify: {enabled: true, interval: 0}}}", nil, "storage.maintenance.verify.interval: must be above 0"},
		{"version: 0.1\nstorage: {inmemory: {}, maintenance: {uploadpurging: {age: 0}}}", nil, "storage.maintenance.uploadpurging.age: must be above 0"},
		{"version: 0.1\nstorage: {filesystem: {rootdirectory: ''}}", nil, "storage.filesystem.rootdirectory: is empty"},
		{minimal + "health: {storagedriver: {interval: 0}}", nil, "health.storagedriver.interval: must be above 0"},
		{minimal + "health: {storagedriver: {threshold: -1}}", nil, "health.storagedriver.threshold: must not be negative"},
		{minimal + "health: {file: [{}]}", nil, "health.file[0].file: is required"},
		{minimal + "health: {http: [{uri: 'user:hunter2@host/path'}]}", nil, "health.http[0].uri: is not a URL such as http://127.0.0.1:8080/health"},
		{minimal + "health: {tcp: [{addr: x}]}", nil, "health.tcp[0].addr:"},
		{minimal + "catalog: {maxentries: -1}", nil, "catalog.maxentries: must not be negative"},
		{minimal + "tags: {maxtags: -1}", nil, "tags.maxtags: must not be negative"},
		{minimal + "validation: {manifests: {urls: {allow: ['(']}}}", nil, "validation.manifests.urls.allow[0]: error parsing regexp"},
		{minimal + "validation: {manifests: {indexes: {platforms: some}}}", nil, "validation.manifests.indexes.platforms:"},
		{minimal + "slipway: {manifests: {maxsize: 0}}", nil, "slipway.manifests.maxsize: must be above 0"},
		{minimal + "notifications: {endpoints: [{url: 'http://a/b'}]}", nil, "notifications.endpoints[0].name: is required"},
		{minimal + "notifications: {endpoints: [{name: " + strings.Repeat("日", 27) + ", url: 'http://a/b'}]}", nil, "notifications.endpoints[0].name: is longer than 80 bytes"},
		{minimal + "notifications: {endpoints: [{name: \"a\\tb\", url: 'http://a/b'}]}", nil, `notifications.endpoints[0].name: "a\tb" holds what cannot be printed`},
		{minimal + "notifications: {endpoints: [{name: n, url: u}]}", nil, "notifications.endpoints[0].url: is not a URL such as https://example.org/events"},
		{minimal + "notifications: {endpoints: [{name: n, url: 'http://a'}, {name: n, url: 'http://a'}]}", nil, `notifications.endpoints[1].name: "n" is the name of another endpoint`},
		{minimal + "notifications: {endpoints: [{name: n, url: 'http://a', headers: {'a b': [c]}}]}", nil, `notifications.endpoints[0].headers.a b: "a b" cannot be the name of a header`},
		{minimal + "notifications: {endpoints: [{name: n, url: 'http://a', headers: {content-length: ['1']}}]}", nil, "notifications.endpoints[0].headers.content-length: follows from the body"},
		{minimal + "notifications: {endpoints: [{name: n, url: 'http://a', ignore: {actions: [puhs]}}]}", nil, "notifications.endpoints[0].ignore.actions[0]:"},
		{minimal + "notifications: {endpoints: [{name: n, url: 'http://a', timeout: 5}]}", nil, "notifications.endpoints[0].timeout: \"5\" is not a duration such as 10s, 5m, 12h or 7d"},
		{minimal + "notifications: {events: {version: v3}}", nil, "notifications.events.version:"},
		{minimal + "notifications: {queue: {maxsize: 1kB}}", nil, "notifications.queue.maxsize: must be 1MiB or more"},
		{minimal + "notifications: {queue: {directory: queue}}", nil, `notifications.queue.directory: "queue" is not an absolute path`},
		{minimal + "notifications: {endpoints: [{name: n, url: 'http://a', secret: fifteen-letters}]}", nil, "notifications.endpoints[0].secret: is shorter than 16 characters"},
		{minimal + "http: {addr: '127.0.0.1:5000', debug: {addr: '127.0.0.1:5000'}}", nil, "http.debug.addr: http.addr and http.debug.addr are equal (c.yml:3)"},
		{minimal + "http: {draintimeout: 5, addr: x}\nlog: {level: trace}", nil, "log.level: \"trace\" is not one of error, warn, info, debug (c.yml:4)\nhttp.draintimeout: \"5\" is not a duration such as 10s, 5m, 12h or 7d (c.yml:3)\nhttp.addr:"},
		{minimal + "policy: {signatures: [{repositories: [a], keys: [k]}]}", nil, "policy.signatures[0].action: refuse needs auth"},
		{minimal + "auth: none\npolicy: {signatures: [{keys: [k], action: refuse}]}", nil, "policy.signatures[0].repositories: is required; \"**\" is all (c.yml:4)\npolicy.signatures[0].action: refuse needs auth"},
		{minimal + "policy: {signatures: [{repositories: [a], action: warn}]}", nil, "policy.signatures[0].keys: is required, unless there are identities"},
		{minimal + "policy: {signatures: [{repositories: [a], keys: [k], action: warn, trustedroot: /r}]}", nil, "policy.signatures[0].trustedroot: is required with identities, and only with them (c.yml:"},
		{minimal + "policy: {signatures: [{repositories: [a], identities: [{issuer: i}], action: warn}]}", nil, "policy.signatures[0].trustedroot: is required with identities, and only with them (c.yml:3)\npolicy.signatures[0].identities[0].subject: is required (c.yml:3)"},
		{minimal + "slipway: {http: {stalltimeout: 0}}", nil, "slipway.http.stalltimeout: must be above 0"},
	}
	for _, tt := range tests {
		_, _, err := loadText(t, tt.text, tt.environ...)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Count(err.Error(), "\n") != strings.Count(tt.want, "\n") {
			t.Errorf("%s %q:\ngot  %v\nwant %s", tt.text, tt.environ, err, tt.want)
		}
	}
}

// TestAccepted holds what only dead parts had, and what asks for nothing.
func TestAccepted(t *testing.T) {
	tests := []struct {
		text     string
		warnings []string
	}{
		{"reporting: {bugsnag: {apikey: x}, newrelic: {licensekey: y}}", []string{"reporting does nothing"}},
		{"compatibility: {schema1: {enabled: true, signingkeyfile: /k}}", []string{"compatibility does nothing"}},
		{"loglevel: debug", nil},
		{"log: {hooks: [{type: mail, levels: [panic], options: {smtp: {addr: h}}}]}", []string{"log.hooks does nothing"}},
		{"validation: {enabled: true}", []string{"validation.enabled does nothing"}},
		{"http: {debug: {prometheus: {enabled: true}}}", []string{"http.debug.prometheus.enabled: has no effect without http.debug.addr"}},
		{"http: {debug: {addr: ':5001', prometheus: {enabled: true}}}", nil},
		{"proxy: {remoteurl: '', username: ''}", nil},
		{"proxy: {remoteurl: https://x, username: u, password: p}", []string{"proxy: has a login, and this registry has none"}},
		{"proxy: {remoteurl: https://registry-1.docker.io, ttl: -1s}", nil},
		{"proxy: {remoteurl: https://x, username: u, password: p, public: true}", nil},
		{"proxy: {remoteurl: https://x, ttl: 1h, tagttl: 1m, cachewritetimeout: 1m}", nil},
		{"auth: {htpasswd: {realm: r, path: /p}}\nproxy: {remoteurl: https://x, username: u, password: p}", nil},
		{"notifications: {events: {includereferences: false}, endpoints: []}", nil},
		{"middleware: {storage: []}", nil},
		{"middleware: {registry: [], storage: [{name: redirect, options: {baseurl: https://cdn.example.com/x}}, {name: rewrite, options: {host: 'h:1', scheme: http, trimpathprefix: /x}}]}", nil},
		{"policy: {repository: {classes: []}}", nil},
		{"policy: {signatures: [{repositories: [a], keys: [k], action: warn}]}", nil},
		{"policy: {signatures: [{repositories: [a], trustedroot: /r, identities: [{issuer: 'https://i', subject: '*@example.org'}], action: warn}]}", nil},
		{"policy: {signatures: [{repositories: [a], trustedroot: /r, identities: [{issuer: 'https://i', subject: '**'}, {issuer: '**', subject: '**'}], action: warn}]}", []string{"policy.signatures[0].identities[1]: matches every identity"}},
		{"auth: {htpasswd: {realm: r, path: /p}}\npolicy: {signatures: [{repositories: [a], keys: [k]}]}\naccess: {rules: [{who: [ci], repositories: [a], allow: [push]}]}", nil},
		{"redis: {addr: 'r:1', password: p, pool: {maxidle: 16}, tls: {enabled: false}}", []string{"redis does nothing"}},
	}
	for _, tt := range tests {
		_, report, err := loadText(t, minimal+tt.text)
		if err != nil || len(report.Warnings) != len(tt.warnings) {
			t.Errorf("%s: got %v, %q", tt.text, err, report.Warnings)
		}
		for i, want := range tt.warnings {
			if !strings.HasPrefix(report.Warnings[i], want) {
				t.Errorf("%s: got %q, want %q", tt.text, report.Warnings[i], want)
			}
		}
	}
	c, report, err := loadText(t, "version: 0.1\nstorage: {filesystem: {maxthreads: 100}, tag: {concurrencylimit: 5}, cache: {layerinfo: inmemory, blobdescriptorsize: 5}}")
	if err != nil || len(report.Warnings) != 3 || c.Storage.Filesystem == nil {
		t.Errorf("got %v, %q", err, report.Warnings)
	}
}

// The headers of a check may hold credentials.
func TestShowHidesHeadersOfChecks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yml")
	content := minimal + "health: {http: [{uri: 'http://127.0.0.1/', headers: {authorization: [Bearer hunter2]}}]}\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	c, report, err := Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Health.HTTP[0].Header().Get("Authorization"); got != "Bearer hunter2" {
		t.Errorf("the check sends %q", got)
	}
	var out strings.Builder
	if err := report.Show(&out, c); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "hunter2") || !strings.Contains(out.String(), "'***'") {
		t.Errorf("shown as\n%s", out.String())
	}
}

// The configuration is read from the argument, else from the file that the variable names, else from variables alone.
func TestWhichFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yml")
	if err := os.WriteFile(path, []byte(minimal), 0o600); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "none.yml")
	tests := []struct {
		name    string
		file    string
		environ []string
		want    error
	}{
		{"argument", path, nil, nil},
		{"variable", "", []string{PathVariable + "=" + path}, nil},
		{"argument before variable", path, []string{PathVariable + "=" + other}, nil},
		{"missing file", other, []string{"REGISTRY_STORAGE=inmemory"}, os.ErrNotExist},
		{"environment alone", "", []string{"REGISTRY_STORAGE=inmemory"}, nil},
		{"environment alone, by a setting of the driver", "", []string{"REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY=/x"}, nil},
		{"nothing", "", nil, ErrNothing},
		{"nothing about storage", "", []string{"REGISTRY_HTTP_ADDR=:1"}, ErrNothing},
		{"empty variables", "", []string{PathVariable + "=", "REGISTRY_STORAGE="}, ErrNothing},
	}
	for _, tt := range tests {
		c, report, err := Load(tt.file, tt.environ)
		if !errors.Is(err, tt.want) || err == nil && c == nil || report == nil {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
		}
	}
	if _, _, err := Load("", []string{"REGISTRY_HTTP_NOTHING=1"}); err == nil || !strings.Contains(err.Error(), "REGISTRY_HTTP_NOTHING") {
		t.Errorf("got %v", err)
	}
}

// FuzzLoad: whatever a file and a variable hold, loading ends with a value or
// an error, and a value loaded can be shown and loaded again.
func FuzzLoad(f *testing.F) {
	f.Add(minimal+"http: {headers: {X-Content-Type-Options: [nosniff]}, debug: {prometheus: {enabled: true}}}", "REGISTRY_HTTP_HEADERS_X-A", "[b]")
	f.Add(minimal+"auth: none", "REGISTRY_HEALTH_TCP_0_ADDR", "h:1")
	f.Add("a: &a [*a]", "REGISTRY_STORAGE", "{inmemory: }")
	f.Add("<<: {version: 0.1}\nstorage: inmemory", "REGISTRY_LOG_FIELDS_a_b", "!!binary x")
	f.Add("version: 0.1\nstorage: {inmemory: }\nlog: {fields: {a: 2001-01-01, b: .nan, c: !x {d: e}}}", "REGISTRY_LOGLEVEL", "debug")
	f.Add("version:\nstorage: inmemory", "REGISTRY_HEALTH_TCP_0_ADDR", "\xdb:0")
	f.Fuzz(func(t *testing.T, text, name, value string) {
		c, report, err := load(config.Options{File: "c.yml", Source: []byte(text), Environ: []string{name + "=" + value}})
		if err != nil {
			return
		}
		var out strings.Builder
		if err := report.Show(&out, c); err != nil {
			t.Fatal(err)
		}
		if _, _, err := load(config.Options{File: "shown", Source: []byte(out.String())}); err != nil {
			t.Fatalf("%v in\n%s", err, out.String())
		}
	})
}

// TestAzureAddress: the account may come in several forms, those of distribution 2.8
// and 3.
func TestAzureAddress(t *testing.T) {
	for _, tt := range []struct{ text, account, key, service, kind string }{
		{"{accountname: a, accountkey: k, container: abc}", "a", "k", "https://a.blob.core.windows.net", AzureSharedKey},
		{"{accountname: a, accountkey: k, container: abc, realm: core.chinacloudapi.cn}", "a", "k", "https://a.blob.core.chinacloudapi.cn", AzureSharedKey},
		{"{accountname: a, accountkey: k, container: abc, credentials: {type: shared_key}, serviceurl: 'http://h:1/a', max_retries: 5}", "a", "k", "http://h:1/a", AzureSharedKey},
		{"{accountname: a, container: abc}", "a", "", "https://a.blob.core.windows.net", AzureDefault},
		{"{accountname: a, container: abc, credentials: {type: client_secret, clientid: c, tenantid: t, secret: s}}", "a", "", "https://a.blob.core.windows.net", AzureClientSecret},
		{"{connectionstring: 'DefaultEndpointsProtocol=https;AccountName=a;AccountKey=k==;EndpointSuffix=core.usgovcloudapi.net', container: abc}", "a", "k==", "https://a.blob.core.usgovcloudapi.net", AzureSharedKey},
		{"{connectionstring: 'BlobEndpoint=http://h:1/a;AccountName=a;AccountKey=k', container: abc}", "a", "k", "http://h:1/a", AzureSharedKey},
	} {
		c, _, err := loadText(t, "version: 0.1\nstorage: {azure: "+tt.text+"}")
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		a := c.Storage.Azure
		if a.Account() != tt.account || a.Key() != tt.key || a.Service() != tt.service || a.CredentialsType() != tt.kind {
			t.Errorf("%s: %q %q %q %q", tt.text, a.Account(), a.Key(), a.Service(), a.CredentialsType())
		}
	}
}

func TestS3(t *testing.T) {
	for text, pathStyle := range map[string]bool{
		"{bucket: b, region: r}":   false,
		"{bucket: b.c, region: r}": true,
		"{bucket: b, region: r, regionendpoint: minio:9000, secure: \"false\"}": true, // as distribution 2.8 has it
		"{bucket: b, regionendpoint: https://minio, forcepathstyle: false}":     false,
		"{bucket: b, region: r, forcepathstyle: \"true\"}":                      true,
	} {
		c, _, err := loadText(t, "version: 0.1\nstorage: {s3aws: "+text+"}")
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := c.Storage.S3.PathStyle(); got != pathStyle {
			t.Errorf("%s: the bucket is in the path: %v", text, got)
		}
	}
}

// Checking a configuration sends no queries to a name server: it must work, and end soon, on a
// machine without a network.
func TestLoad_ResolvesNoNames(t *testing.T) {
	before := net.DefaultResolver
	defer func() { net.DefaultResolver = before }()
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		t.Error("a name is looked up")
		return nil, errors.New("no network")
	}}
	if _, _, err := loadText(t, minimal+"http: {addr: 'registry.example.org:5000', debug: {addr: 'debug.example.org:5000'}}\nhealth: {tcp: [{addr: 'db.example.org:5432'}]}"); err != nil {
		t.Error(err)
	}
}
