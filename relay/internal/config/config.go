// Package config is what the relay can be told: one struct tree, its defaults
// and what is wrong with it. It takes PushBits' spelling of a key where PushBits
// has one.
package config

import (
	"strings"
	"time"

	"slipway/shared/config"
)

// Prefix begins the environment variables.
const Prefix = "RELAY"

// PathVariable names the configuration file when no flag does.
const PathVariable = "RELAY_CONFIG"

// Config is the whole configuration.
type Config struct {
	HTTP       HTTP       `key:"http"`
	Database   Database   `key:"database"`
	Matrix     Matrix     `key:"matrix" doc:"The bot's account."`
	Admin      Admin      `key:"admin" doc:"The first administrator, created or updated at each start and reload."`
	Auth       Auth       `key:"auth"`
	Security   Security   `key:"security"`
	Hook       Hook       `key:"hook"`
	SMTP       SMTP       `key:"smtp" doc:"Mails become messages."`
	Formatting Formatting `key:"formatting"`
	Delivery   Delivery   `key:"delivery"`
	Limits     Limits     `key:"limits"`
	History    History    `key:"history"`
	Metrics    Metrics    `key:"metrics"`
	Logging    Logging    `key:"logging" doc:"The log goes to stderr."`

	Debug          config.Dead    `key:"debug" why:"write logging.level: debug"`
	Crypto         config.Dead    `key:"crypto" why:"passwords are hashed with argon2id and parameters that fit a small machine"`
	RepairBehavior config.Dead    `key:"repairbehavior" why:"names and topics of rooms are set when the bot makes them and never again"`
	Alertmanager   config.Refused `key:"alertmanager" why:"titles and texts come from the usual annotations; leave it out"`
}

// HTTP is where and how the relay listens.
type HTTP struct {
	ListenAddress  string        `key:"listenaddress" doc:"Address to listen on, host:port."`
	Port           int           `key:"port" doc:"Port for a listenaddress without one, as in PushBits; 0 means 8080."`
	CertFile       string        `key:"certfile" doc:"PEM certificate file. Default: plain HTTP."`
	KeyFile        string        `key:"keyfile" doc:"PEM file of its key."`
	ACME           ACME          `key:"acme"`
	TrustedProxies []string      `key:"trustedproxies" alias:"trustedProxies" doc:"Addresses or networks whose X-Forwarded-For and X-Forwarded-Proto are trusted."`
	PublicURL      string        `key:"publicurl" doc:"Address of the relay for people and senders. Default: from the request."`
	DrainTimeout   time.Duration `key:"draintimeout" doc:"Time for open requests when stopping."`
}

// TLS reports whether the relay serves TLS.
func (h *HTTP) TLS() bool { return h.CertFile != "" || h.ACME.Enabled() }

// ACME configures certificates from an ACME authority, in place of certfile and keyfile.
type ACME struct {
	Hosts        []string `key:"hosts" doc:"Names to get certificates for from Let's Encrypt, which connects to port 443 of each. The database keeps them."`
	Email        string   `key:"email" doc:"Where the authority writes to."`
	DirectoryURL string   `key:"directoryurl" doc:"URL of another ACME authority."`
}

// Enabled reports whether certificates come from an authority.
func (a ACME) Enabled() bool { return len(a.Hosts) > 0 }

// Database is where messages, users and applications are kept.
type Database struct {
	Dialect    string        `key:"dialect" doc:"sqlite or postgres."`
	Connection string        `key:"connection" doc:"SQLite file, or PostgreSQL connection string without the password: keywords or a URL. Empty uses the settings below."`
	Host       string        `key:"host" doc:"PostgreSQL: host, or the folder of its Unix socket."`
	Port       int           `key:"port" doc:"PostgreSQL: port."`
	Name       string        `key:"name" doc:"PostgreSQL: existing database."`
	User       string        `key:"user" doc:"PostgreSQL: user that owns the database or may create tables."`
	Password   config.Secret `key:"password" doc:"PostgreSQL: password, also with connection."`
	TLS        string        `key:"tls" choices:"disable,prefer,require,verify-ca,verify-full" doc:"PostgreSQL: as libpq's sslmode. Only verify-full authenticates the server."`
	CAFile     string        `key:"cafile" doc:"PostgreSQL: certificate authority. Default: the system's."`
}

// Matrix is the bot's account.
type Matrix struct {
	Homeserver  string        `key:"homeserver" doc:"URL of the homeserver, without /_matrix. Required."`
	Username    string        `key:"username" doc:"Matrix ID of the bot, or its name on the homeserver. Required without an access token."`
	Password    config.Secret `key:"password" doc:"The bot's password; also MATRIX_PASSWORD."`
	AccessToken config.Secret `key:"accesstoken" doc:"Access token in place of a password."`
	Timeout     time.Duration `key:"timeout" doc:"Time for one request to the homeserver."`
	PickleKey   config.Secret `key:"pickle_key" doc:"Encrypts the bot's keys in the database; at least 32 random characters. Default: a file beside the SQLite database. Required for encrypted rooms with PostgreSQL."`
	RecoveryKey config.Secret `key:"recovery_key" doc:"Recovery key of the bot's identity, if another client created it."`
	EncryptNew  bool          `key:"encrypt_new_rooms" doc:"Encrypt the rooms that the bot creates, if it can."`
	Invites     Invites       `key:"invites"`
}

// ServerName returns the name of the bot's homeserver; "" if the configuration doesn't hold it.
func (m *Matrix) ServerName() string {
	_, server, _ := strings.Cut(m.Username, ":")
	return server
}

// Invites is about whose invitations the bot takes, besides those of the
// administrator and the known users.
type Invites struct {
	Servers []string `key:"servers" doc:"Homeservers whose users may all invite the bot."`
}

// Admin is the first administrator. It is made, or brought up to date, at each
// start.
type Admin struct {
	Name     string        `key:"name" doc:"Login name."`
	Password config.Secret `key:"password" doc:"Also ADMIN_PASSWORD. Required, at least 8 characters."`
	MatrixID string        `key:"matrixid" doc:"The administrator's Matrix ID. Required."`
}

// Auth configures logins to the web interface besides passwords.
type Auth struct {
	OIDC *OIDC `key:"oidc"`
}

// OIDC logs people in at an OpenID Connect provider.
type OIDC struct {
	Name         string        `key:"name" doc:"Name of the provider on the login page."`
	Issuer       string        `key:"issuer" doc:"URL of the provider, such as https://id.example.org/realms/main. Required."`
	ClientID     string        `key:"clientid" doc:"ID of the relay at the provider. Required."`
	ClientSecret config.Secret `key:"clientsecret" doc:"Secret of the relay at the provider; none for a public client."`
	Scopes       []string      `key:"scopes" doc:"Scopes asked for beside openid."`
	NameClaim    string        `key:"nameclaim" doc:"Claim that is NAME in @NAME:servername, or the whole Matrix ID. People must not be able to choose it freely."`
	ServerName   string        `key:"servername" doc:"Server of the Matrix IDs, such as example.org. Default: nameclaim holds the whole Matrix ID."`
	Create       bool          `key:"create" doc:"Create a user for a person whose Matrix ID no user has."`
}

// Security is about tokens.
type Security struct {
	CheckToken bool           `key:"checktoken" doc:"Refuse tokens with white space around them. false accepts them, and keeps a replaced token valid for a day where the request names no grace period."`
	CheckHIBP  config.Refused `key:"checkhibp" why:"new passwords are not sent to Have I Been Pwned"`
}

// Hook is about what other programs post by themselves.
type Hook struct {
	Registry RegistryHook `key:"registry"`
}

// RegistryHook is about the notifications of registries.
type RegistryHook struct {
	Secret config.Secret `key:"secret" doc:"Secret of the registry's endpoint (notifications.endpoints[].secret), at least 16 characters. /hook/registry then refuses unsigned notifications."`
}

// SMTP configures email that becomes messages.
type SMTP struct {
	ListenAddress string `key:"listenaddress" doc:"host:port. Default: off."`
	Domain        string `key:"domain" doc:"Name that the server greets with. Recipients of any domain are taken."`
	ImplicitTLS   bool   `key:"implicittls" doc:"TLS from the first byte, as on port 465, in place of STARTTLS. Both use http.certfile."`
	Plaintext     bool   `key:"plaintext" doc:"Take tokens without TLS from other machines too. This machine never needs TLS."`
}

// Formatting is about how messages look.
type Formatting struct {
	ColoredTitle  bool `key:"coloredtitle" doc:"Color titles by priority."`
	PriorityWords bool `key:"prioritywords" doc:"Begin titles with a priority such as [high]."`
}

// Delivery bounds how long and how parallel the relay sends.
type Delivery struct {
	Parallel int           `key:"parallel" doc:"Rooms that are sent to at the same time."`
	MaxAge   time.Duration `key:"maxage" doc:"How long delivery is tried before a message is given up."`

	SearchFirst bool `key:"searchfirst" doc:"Search a room's history before a message whose answer was lost is sent again. For homeservers that forget transaction IDs when they restart, such as Dendrite."`
}

// Limits bound what is taken in.
type Limits struct {
	Body          config.Size   `key:"body" doc:"Largest body of a request, with files in base64; the files of multipart forms don't count."`
	Message       config.Size   `key:"message" doc:"Longest text of a message."`
	Title         config.Size   `key:"title" doc:"Longest title of a message."`
	Attachments   config.Size   `key:"attachments" doc:"Largest size of a message's attachments together; 0 refuses them. The homeserver's own limit holds as well."`
	RatePerMinute int           `key:"rateperminute" doc:"Messages per minute of an application without its own limit; 0 means no limit."`
	Burst         int           `key:"burst" doc:"Messages at once within that rate; 0 means a minute's worth."`
	Waiting       int64         `key:"waiting" doc:"Limit of waiting messages. One application may take as many of them as it leaves free, and those of one owner seven eighths."`
	Wait          time.Duration `key:"wait" doc:"Limit of ?wait=."`
	Applications  int           `key:"applications" min:"0" doc:"Most applications of a user other than an administrator, and rooms made for one a day; 0 means no limit."`
}

// History is about final messages.
type History struct {
	Retention time.Duration `key:"retention" doc:"How long final messages are kept; 0 means forever."`
}

// Metrics is about numbers for Prometheus.
type Metrics struct {
	Enabled       bool   `key:"enabled" doc:"Serve /metrics."`
	ListenAddress string `key:"listenaddress" doc:"Separate address for /metrics, host:port."`
}

// Logging is about the log, which goes to stderr.
type Logging struct {
	Level     string `key:"level" choices:"error,warn,info,debug" doc:"Lowest level."`
	Format    string `key:"format" choices:"text,json,logstash,console" doc:"Format; text is key=value."`
	AccessLog bool   `key:"accesslog" doc:"Access log in combined format, on stdout."`
}
