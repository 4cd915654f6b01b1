package config

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestDriverKeys holds every key that distribution 2.8 and 3 have for the object stores and
// Redis, in the forms that they take: none is refused, and those that do nothing here are said.
func TestDriverKeys(t *testing.T) {
	for name, tt := range map[string]struct {
		text     string
		warnings []string // the keys that do nothing, or have another name
		check    func(*Config) []any
		want     []any
	}{
		"s3 of 2.8": {
			`storage:
  s3:
    accesskey: A
    secretkey: S
    region: us-west-1
    regionendpoint: http://minio:9000
    bucket: b
    encrypt: "true"
    keyid: K
    secure: "false"
    skipverify: "true"
    v4auth: "true"
    chunksize: 5242880
    multipartcopychunksize: 33554432
    multipartcopymaxconcurrency: 100
    multipartcopythresholdsize: 33554432
    rootdirectory: /s3/object/name/prefix
    storageclass: reduced_redundancy
    useragent: agent
    objectacl: public-read
`,
			[]string{"chunksize", "multipartcopychunksize", "multipartcopymaxconcurrency", "multipartcopythresholdsize"},
			func(c *Config) []any {
				s := c.Storage.S3
				return []any{
					s.AccessKey.Reveal(), s.SecretKey.Reveal(), s.Region, s.RegionEndpoint, s.Bucket, s.Encrypt, s.KeyID, s.Secure, s.SkipVerify,
					s.V4Auth, s.RootDirectory, strings.ToUpper(s.StorageClass), s.UserAgent, s.ObjectACL, s.PathStyle(),
				}
			},
			[]any{"A", "S", "us-west-1", "http://minio:9000", "b", true, "K", false, true, true, "/s3/object/name/prefix", "REDUCED_REDUNDANCY", "agent", "public-read", true},
		},
		"s3 of 3": {
			`storage:
  s3aws:
    region: us-west-1
    bucket: b
    forcepathstyle: true
    usedualstack: true
    accelerate: true
    usefipsendpoint: true
    redirectendpoint: https://images.example.com
    loglevel: debugwithsigning
    sessiontoken: T
    accesskey: A
    secretkey: S
    storageclass: EXPRESS_ONEZONE
`,
			[]string{"loglevel"},
			func(c *Config) []any {
				s := c.Storage.S3
				return []any{s.PathStyle(), s.UseDualStack, s.Accelerate, s.UseFIPSEndpoint, s.RedirectEndpoint, s.SessionToken.Reveal(), s.StorageClass, s.Secure, s.ObjectACL}
			},
			[]any{true, true, true, true, "https://images.example.com", "T", "EXPRESS_ONEZONE", true, "private"},
		},
		"azure of 2.8": {
			"storage: {azure: {accountname: a, accountkey: a2V5, container: abc, realm: core.chinacloudapi.cn}}\n", nil,
			func(c *Config) []any {
				a := c.Storage.Azure
				return []any{a.Account(), a.Key(), a.Container, a.Service(), a.CredentialsType()}
			},
			[]any{"a", "a2V5", "abc", "https://a.blob.core.chinacloudapi.cn", AzureSharedKey},
		},
		"azure of 3": {
			`storage:
  azure:
    accountname: a
    container: abc
    connectionstring: AccountName=other
    serviceurl: https://blobs.example.com
    rootdirectory: /some/where
    skipverify: true
    max_retries: 5
    retry_delay: 100ms
    credentials: {type: client_secret, clientid: C, tenantid: T, secret: S}
`,
			[]string{"max_retries", "retry_delay"},
			func(c *Config) []any {
				a := c.Storage.Azure
				return []any{a.Account(), a.Service(), a.RootDirectory, a.SkipVerify, a.CredentialsType(), a.Credentials.ClientID, a.Credentials.TenantID, a.Credentials.Secret.Reveal()}
			},
			[]any{"a", "https://blobs.example.com", "/some/where", true, AzureClientSecret, "C", "T", "S"},
		},
		"gcs of 2.8": {
			"storage: {gcs: {bucket: b, keyfile: /k.json, rootdirectory: /some/where, chunksize: 5242880, maxconcurrency: 50}}\n",
			[]string{"chunksize", "maxconcurrency"},
			func(c *Config) []any {
				return []any{c.Storage.GCS.Bucket, c.Storage.GCS.KeyFile, c.Storage.GCS.RootDirectory}
			},
			[]any{"b", "/k.json", "/some/where"},
		},
		"gcs of 3": {
			`storage:
  gcs:
    bucket: b
    useragent: agent
    credentials:
      type: service_account
      project_id: p
      private_key_id: "1"
      private_key: |
        -----BEGIN PRIVATE KEY-----
        x
        -----END PRIVATE KEY-----
      client_email: client@example.com
      client_id: 42
      auth_uri: http://example.com/a
      token_uri: http://example.com/t
      auth_provider_x509_cert_url: http://example.com/p
      client_x509_cert_url: http://example.com/c
`,
			nil,
			func(c *Config) []any {
				return []any{c.Storage.GCS.UserAgent, len(c.Storage.GCS.Credentials), string(c.Storage.GCS.CredentialsJSON()) != ""}
			},
			[]any{"agent", 10, true},
		},
		"redis of 2.8": {
			`storage: {inmemory: {}, cache: {layerinfo: redis}}
redis:
  addr: r:6379
  password: P
  db: 1
  dialtimeout: 10ms
  pool: {maxidle: 16, maxactive: 64, idletimeout: 300s}
`,
			[]string{"redis", "storage.cache.blobdescriptor"},
			func(*Config) []any { return nil }, nil,
		},
		"redis of 3": {
			`storage: {inmemory: {}, cache: {blobdescriptor: redis, blobdescriptorsize: 10000}}
redis:
  addrs: [a:1, b:1]
  mastername: M
  password: P
  minretrybackoff: 1ms
  poolfifo: true
  tls: {certificate: /c, key: /k, rootcas: [/r]}
`,
			[]string{"blobdescriptorsize", "redis", "storage.cache.blobdescriptor"},
			func(*Config) []any { return nil }, nil,
		},
		"cloudfront": {
			`storage: {s3: {bucket: b, region: r}}
middleware:
  storage:
  - name: cloudfront
    options:
      baseurl: d111111abcdef8.cloudfront.net
      privatekey: /key.pem
      keypairid: K
      duration: 3000s
      ipfilteredby: awsregion
      awsregion: us-east-1, us-east-2
      updatefrenquency: 6h
      iprangesurl: https://example.com/ip-ranges.json
`,
			nil,
			func(c *Config) []any {
				o := c.Middleware.Storage[0].Options
				return []any{o.Distribution().String(), o.PrivateKey, o.KeyPairID, o.Duration, o.IPFilteredBy, o.Regions(), o.UpdateFrequency, o.IPRangesURL}
			},
			[]any{"https://d111111abcdef8.cloudfront.net", "/key.pem", "K", 3000 * time.Second, "awsregion", []string{"us-east-1", "us-east-2"}, 6 * time.Hour, "https://example.com/ip-ranges.json"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, report, err := loadText(t, "version: 0.1\n"+tt.text)
			if err != nil {
				t.Fatal(err)
			}
			if got := tt.check(c); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %v\nwant %v", got, tt.want)
			}
			said := strings.Join(report.Warnings, "\n")
			for _, key := range tt.warnings {
				if !strings.Contains(said, key+" ") {
					t.Errorf("nothing is said about %s:\n%s", key, said)
				}
			}
			if len(report.Warnings) != len(tt.warnings) {
				t.Errorf("warnings:\n%s\nwant them about %v", said, tt.warnings)
			}
		})
	}
}
