package config

import (
	"testing"

	"slipway/shared/config"
)

func TestDSN(t *testing.T) {
	for name, tt := range map[string]struct {
		d    Database
		want string
	}{
		"fields":      {Database{Connection: defaultFile, Host: "db", Port: 5433, Name: "it's", User: `a\b`, TLS: "verify-full", CAFile: "/ca.pem"}, `host='db' port='5433' dbname='it\'s' user='a\\b' sslmode='verify-full' sslrootcert='/ca.pem'`},
		"no password": {Database{Host: "db", Port: 5432, Password: config.NewSecret("x1y2")}, `host='db' port='5432'`},
		"connection":  {Database{Connection: "host=a,b", Host: "c", Port: 1}, "host=a,b"},
	} {
		if got := tt.d.DSN(); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}
