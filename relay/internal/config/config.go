// Package config is what the relay can be told: one struct tree, its defaults
// and what is wrong with it. It takes PushBits' spelling of a key where PushBits
// has one.
package config

import (
	"time"

	"slipway/shared/config"
)

// Prefix begins the environment variables.
const Prefix = "RELAY"

// PathVariable names the configuration file when no flag does.
const PathVariable = "RELAY_CONFIG"

// Config is the whole configuration.
type Config struct {
	HTTP       HTTP       `key:"http" doc:"Where and how the relay listens."`
	Database   Database   `key:"database" doc:"Where messages, users and applications are kept."`
	Matrix     Matrix     `key:"matrix" doc:"The bot's account."`
	Admin      Admin      `key:"admin" doc:"The first administrator, created or updated at each start."`
	Security   Security   `key:"security" doc:"How strictly tokens are checked."`
	Hook       Hook       `key:"hook" doc:"What other programs post."`
	Formatting Formatting `key:"formatting" doc:"How messages look."`
	Delivery   Delivery   `key:"delivery" doc:"How long and how parallel the relay sends."`
	Limits     Limits     `key:"limits" doc:"Limits of what is accepted."`
	History    History    `key:"history" doc:"Messages that are final."`
	Metrics    Metrics    `key:"metrics" doc:"Metrics for Prometheus."`
	Logging    Logging    `key:"logging" doc:"The log goes to stderr."`

	Debug          config.Dead  `key:"debug" why:"write logging.level: debug"`
	Crypto         config.Dead  `key:"crypto" why:"passwords are hashed with argon2id and parameters that fit a small machine"`
	RepairBehavior config.Dead  `key:"repairbehavior" why:"names and topics of rooms are set when the bot makes them and never again"`
	Alertmanager   config.Later `key:"alertmanager" empty:"ok" doc:"Webhooks of Alertmanager."`
}

// HTTP is where and how the relay listens.
type HTTP struct {
	ListenAddress  string        `key:"listenaddress" doc:"Address to listen on, host:port."`
	Port           int           `key:"port" doc:"Port, for a listenaddress that is a host only, as PushBits writes it; 0 means 8080."`
	CertFile       string        `key:"certfile" doc:"PEM file of the certificate; without one the relay speaks plain HTTP, for a proxy in front."`
	KeyFile        string        `key:"keyfile" doc:"PEM file of the certificate's key."`
	TrustedProxies []string      `key:"trustedproxies" alias:"trustedProxies" doc:"Addresses or networks (10.0.0.0/8) whose X-Forwarded-For and X-Forwarded-Proto are believed."`
	PublicURL      string        `key:"publicurl" doc:"Address that people and senders reach the relay under, for the curl lines in the web interface; empty takes it from the request."`
	DrainTimeout   time.Duration `key:"draintimeout" doc:"Time given to open requests when the relay stops."`
}

// Database is where messages, users and applications are kept.
type Database struct {
	Dialect    string        `key:"dialect" doc:"Kind of database: sqlite or postgres."`
	Connection string        `key:"connection" doc:"Path of the SQLite file, on a disk that persists; or a connection string of PostgreSQL, without the password: keywords (host=db dbname=relay user=relay) or a URL. It may name several hosts. Empty takes the settings below."`
	Host       string        `key:"host" doc:"PostgreSQL: host, or the folder of its Unix socket."`
	Port       int           `key:"port" doc:"PostgreSQL: port."`
	Name       string        `key:"name" doc:"PostgreSQL: name of the database, which has to be there."`
	User       string        `key:"user" doc:"PostgreSQL: user, who owns the database or may create tables in its schema."`
	Password   config.Secret `key:"password" doc:"PostgreSQL: password of the user, also with connection."`
	TLS        string        `key:"tls" choices:"disable,prefer,require,verify-ca,verify-full" doc:"PostgreSQL: disable, prefer, require, verify-ca or verify-full, as libpq's sslmode. Only the last one makes sure that it is the right server."`
	CAFile     string        `key:"cafile" doc:"PostgreSQL: PEM file of the authority that signed the server's certificate; empty takes the system's."`
}

// Matrix is the bot's account.
type Matrix struct {
	Homeserver  string        `key:"homeserver" doc:"URL of the homeserver, without /_matrix. Required."`
	Username    string        `key:"username" doc:"Matrix ID of the bot, such as @relay:example.org, or its name on the homeserver, such as relay. Required unless there is an access token."`
	Password    config.Secret `key:"password" doc:"Password of the bot; also MATRIX_PASSWORD."`
	AccessToken config.Secret `key:"accesstoken" doc:"Access token of the bot, in place of a password."`
	Timeout     time.Duration `key:"timeout" doc:"Time given to one request to the homeserver."`
	PickleKey   config.Secret `key:"pickle_key" doc:"Key, at least 32 random characters, that encrypts what the bot keeps in the database for encrypted rooms. Empty takes one from a file beside the SQLite database, which is made at the first start. With PostgreSQL there is no such file: without a key, messages to encrypted rooms wait."`
	RecoveryKey config.Secret `key:"recovery_key" doc:"Recovery key of the bot's identity, if another client of the bot has made it. Other clients then show the relay's device as verified."`
	EncryptNew  bool          `key:"encrypt_new_rooms" doc:"Encrypt the rooms that the bot makes for applications, as Matrix clients encrypt private rooms. Where the bot cannot encrypt, because PostgreSQL is used without a pickle key for example, they are made without encryption, and the log and relay doctor say so."`
	Invites     Invites       `key:"invites"`
}

// Invites is about whose invitations the bot takes, besides those of the
// administrator and the known users.
type Invites struct {
	Servers []string `key:"servers" doc:"Homeservers whose users may all invite the bot."`
}

// Admin is the first administrator. It is made, or brought up to date, at each
// start.
type Admin struct {
	Name     string        `key:"name" doc:"Login name of the administrator."`
	Password config.Secret `key:"password" doc:"Password of the administrator, also ADMIN_PASSWORD. Required, at least 8 characters. A changed one takes effect at the next start."`
	MatrixID string        `key:"matrixid" doc:"Matrix ID of the administrator, who may invite the bot. Required."`
}

// Security is about tokens.
type Security struct {
	CheckToken bool         `key:"checktoken" doc:"Check application tokens strictly: no white space around them, and the old token stops working as soon as its grace period is over. false ignores the white space and keeps the old token for a day. Tokens are checked in any case."`
	CheckHIBP  config.Later `key:"checkhibp" empty:"ok" doc:"Check of new passwords against Have I Been Pwned."`
}

// Hook is about what other programs post by themselves.
type Hook struct {
	Registry RegistryHook `key:"registry"`
}

// RegistryHook is about the notifications of registries.
type RegistryHook struct {
	Secret config.Secret `key:"secret" doc:"Secret by which the registry signs its notifications (notifications.endpoints[].secret): /hook/registry then refuses unsigned ones. At least 16 characters, better 32 random ones. Empty accepts all that have a token."`
}

// Formatting is about how messages look.
type Formatting struct {
	ColoredTitle  bool `key:"coloredtitle" doc:"Colour titles by priority."`
	MaxEvents     int  `key:"maxevents" doc:"Events that a message too long for one is split into at most; what does not fit follows as a file. 1 cuts it and sends the file at once."`
	PriorityWords bool `key:"prioritywords" doc:"Begin titles with the priority, [high] for example, unless it is normal: for lock screens and screen readers, which show no colours."`
}

// Delivery says how patient and how parallel the relay sends.
type Delivery struct {
	Parallel int           `key:"parallel" doc:"Rooms that are sent to at the same time; within a room messages are sent one by one."`
	MaxAge   time.Duration `key:"maxage" doc:"How long delivery is tried before a message is given up."`
}

// Limits bound what is taken in.
type Limits struct {
	Body          config.Size   `key:"body" doc:"Largest body of a request."`
	Message       config.Size   `key:"message" doc:"Longest text of a message."`
	Title         config.Size   `key:"title" doc:"Longest title of a message."`
	RatePerMinute int           `key:"rateperminute" doc:"Messages a minute that an application may send, unless it has its own limit; 0 is no limit."`
	Burst         int           `key:"burst" doc:"Messages at once within that rate; 0 means a minute's worth."`
	Waiting       int64         `key:"waiting" doc:"Messages that may wait for delivery; beyond that none is accepted."`
	Wait          time.Duration `key:"wait" doc:"Longest time that a sender may ask to wait for the delivery (?wait=)."`
}

// History is about final messages.
type History struct {
	Retention time.Duration `key:"retention" doc:"How long messages that are sent or given up are kept; 0 keeps them forever."`
}

// Metrics is about numbers for Prometheus.
type Metrics struct {
	Enabled       bool   `key:"enabled" doc:"Serve /metrics."`
	ListenAddress string `key:"listenaddress" doc:"Address for /metrics alone, host:port; empty serves it beside everything else."`
}

// Logging is about the log, which goes to stderr.
type Logging struct {
	Level     string `key:"level" choices:"error,warn,info,debug" doc:"error, warn, info or debug."`
	Format    string `key:"format" choices:"text,json,logstash,console" doc:"text (key=value), json or logstash for machines, console for people."`
	AccessLog bool   `key:"accesslog" doc:"One line in Apache's combined format for each request, on stdout."`
}
