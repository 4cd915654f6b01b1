package config

import "time"

// defaultAddress is used where none is given.
const defaultAddress = "0.0.0.0:8080"

// defaultFile is SQLite's; with another dialect it stands for none.
const defaultFile = "/data/relay.db"

// Default returns the configuration with every default.
func Default() Config {
	return Config{
		HTTP:       HTTP{ListenAddress: defaultAddress, TrustedProxies: []string{}, DrainTimeout: 15 * time.Second},
		Database:   Database{Dialect: "sqlite", Connection: defaultFile, Port: 5432, Name: "relay", User: "relay", TLS: "prefer"},
		Matrix:     Matrix{Timeout: time.Minute, EncryptNew: true, Invites: Invites{Servers: []string{}}},
		Admin:      Admin{Name: "admin"},
		Auth:       Auth{OIDC: &OIDC{Name: "single sign-on", Scopes: []string{"profile"}, NameClaim: "preferred_username"}},
		Security:   Security{CheckToken: true},
		SMTP:       SMTP{Domain: "localhost"},
		Formatting: Formatting{ColoredTitle: true, PriorityWords: true},
		Delivery:   Delivery{Parallel: 64, MaxAge: 72 * time.Hour},
		Limits: Limits{
			Body:         8 << 20,
			Message:      1 << 20,
			Title:        1 << 10,
			Attachments:  20 << 20,
			Waiting:      1_000_000,
			Wait:         30 * time.Second,
			Applications: 200,
		},
		History: History{Retention: 30 * 24 * time.Hour},
		Metrics: Metrics{Enabled: true},
		Logging: Logging{Level: "info", Format: "text"},
	}
}
