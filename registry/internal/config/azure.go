package config

import (
	"net/url"
	"regexp"
	"strings"

	"slipway/shared/config"
)

// Azure is a container of Azure Blob Storage.
type Azure struct {
	AccountName      string           `key:"accountname" doc:"Storage account. Required, unless connectionstring has it."`
	AccountKey       config.Secret    `key:"accountkey" doc:"The account's key, in base64."`
	ConnectionString config.Secret    `key:"connectionstring" doc:"As shown in the portal. Other keys override it."`
	Container        string           `key:"container" doc:"Existing container. Required."`
	Realm            string           `key:"realm" doc:"Domain of the cloud: core.windows.net, core.chinacloudapi.cn, core.usgovcloudapi.net."`
	ServiceURL       string           `key:"serviceurl" doc:"Address of the account's blobs, if it is not https://<accountname>.blob.<realm>."`
	RootDirectory    string           `key:"rootdirectory" doc:"Prefix of all names."`
	SkipVerify       bool             `key:"skipverify" doc:"Accept any certificate. Insecure."`
	Credentials      AzureCredentials `key:"credentials"`
	MaxRetries       config.Dead      `key:"max_retries" why:"requests are repeated for 15 seconds"`
	RetryDelay       config.Dead      `key:"retry_delay" why:"requests are repeated after growing pauses"`
}

// AzureCredentials identifies the registry to Azure.
type AzureCredentials struct {
	Type     string        `key:"type" doc:"shared_key, client_secret or default_credentials. Default: shared_key with a key, otherwise default_credentials."`
	ClientID string        `key:"clientid" doc:"The application's id, or that of a managed or workload identity."`
	TenantID string        `key:"tenantid" doc:"The application's directory."`
	Secret   config.Secret `key:"secret" doc:"The application's secret."`
}

// Types of credentials.
const (
	AzureSharedKey    = "shared_key"
	AzureClientSecret = "client_secret"
	AzureDefault      = "default_credentials"
)

// part is a value of the connection string.
func (a *Azure) part(name string) string {
	for pair := range strings.SplitSeq(a.ConnectionString.Reveal(), ";") {
		if key, value, _ := strings.Cut(pair, "="); strings.EqualFold(strings.TrimSpace(key), name) {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Account is the name of the account.
func (a *Azure) Account() string {
	if a.AccountName != "" {
		return a.AccountName
	}
	return a.part("AccountName")
}

// Key is the key of the account.
func (a *Azure) Key() string {
	if !a.AccountKey.Empty() {
		return a.AccountKey.Reveal()
	}
	return a.part("AccountKey")
}

// Service is the address of the account's blobs.
func (a *Azure) Service() string {
	if a.ServiceURL != "" {
		return a.ServiceURL
	}
	if u := a.part("BlobEndpoint"); u != "" {
		return u
	}
	realm, scheme := a.Realm, "https"
	if suffix := a.part("EndpointSuffix"); suffix != "" {
		realm = suffix
	}
	if s := a.part("DefaultEndpointsProtocol"); s != "" {
		scheme = s
	}
	return scheme + "://" + a.Account() + ".blob." + realm
}

// CredentialsType is the type that is given or meant.
func (a *Azure) CredentialsType() string {
	switch {
	case a.Credentials.Type != "":
		return a.Credentials.Type
	case a.Key() != "":
		return AzureSharedKey
	}
	return AzureDefault
}

var containerName = regexp.MustCompile(`^([a-z0-9]+(-[a-z0-9]+)*|\$root)$`)

func (a *Azure) validate(p *config.Problems) {
	const at = "storage.azure."
	required(p, at+"accountname", a.Account())
	required(p, at+"container", a.Container)
	if a.Container != "" && (!containerName.MatchString(a.Container) || len(a.Container) < 3 || len(a.Container) > 63) {
		p.Addf(at+"container", "%q cannot be the name of a container: 3 to 63 lower-case letters, digits and single hyphens", a.Container)
	}
	u, err := url.Parse(a.Service())
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		p.Addf(at+"serviceurl", "is not a URL such as https://account.blob.core.windows.net") // not repeated: it may hold a signature
	}
	switch a.CredentialsType() {
	case AzureSharedKey:
		required(p, at+"accountkey", a.Key())
	case AzureClientSecret:
		required(p, at+"credentials.clientid", a.Credentials.ClientID)
		required(p, at+"credentials.tenantid", a.Credentials.TenantID)
		required(p, at+"credentials.secret", a.Credentials.Secret.Reveal())
	case AzureDefault:
	default:
		p.Addf(at+"credentials.type", "%q is not one of shared_key, client_secret, default_credentials", a.Credentials.Type)
	}
	rootDirectory(p, at+"rootdirectory", a.RootDirectory)
}

// rootDirectory checks the prefix of the keys of an object store.
func rootDirectory(p *config.Problems, key, root string) {
	for part := range strings.SplitSeq(strings.Trim(root, "/"), "/") {
		if root != "" && (part == "." || part == ".." || part == "" && strings.Trim(root, "/") != "") {
			p.Addf(key, "%q cannot be a prefix of keys", root)
			return
		}
	}
}
