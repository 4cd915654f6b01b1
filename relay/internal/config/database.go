package config

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"slipway/shared/config"
)

func (d *Database) validate(p *config.Problems) {
	switch strings.ToLower(d.Dialect) {
	case "sqlite", "sqlite3":
		if d.Connection == "" {
			p.Addf("database.connection", "is empty; it is the path of the SQLite file, such as /data/relay.db")
		}
	case "postgres", "postgresql":
		d.validatePostgres(p)
	case "mysql", "mariadb":
		p.Addf("database.dialect", "%s is not available; sqlite and postgres are", d.Dialect)
	default:
		p.Addf("database.dialect", "%q is not a database the relay knows; sqlite and postgres are", d.Dialect)
	}
}

func (d *Database) validatePostgres(p *config.Problems) {
	switch c := d.connection(); {
	case c == "":
		if d.Host == "" {
			p.Addf("database.host", "is missing; it is PostgreSQL's host, unless database.connection is given")
		}
	case holdsPassword(c):
		p.Addf("database.connection", "holds a password: give it as database.password or database.password_file, which are not shown")
	case !strings.Contains(c, "=") && !strings.Contains(c, "://"):
		p.Addf("database.connection", "is not a connection string of PostgreSQL such as host=db dbname=relay user=relay")
	}
	if d.Port < 1 || d.Port > 65535 {
		p.Addf("database.port", "%d is not a port", d.Port)
	}
}

var passwordKeyword = regexp.MustCompile(`(^|\s)(password|sslpassword)\s*=`)

func holdsPassword(connection string) bool {
	if !strings.Contains(connection, "://") {
		return passwordKeyword.MatchString(connection)
	}
	u, err := url.Parse(connection)
	if err != nil {
		return strings.Contains(connection, "@") // it is refused anyway; it shall not be shown
	}
	_, there := u.User.Password()
	return there || u.Query().Has("password") || u.Query().Has("sslpassword")
}

// Postgres reports whether the database is one of PostgreSQL.
func (d *Database) Postgres() bool { return strings.HasPrefix(strings.ToLower(d.Dialect), "postgres") }

// connection is the one that was given for PostgreSQL.
func (d *Database) connection() string {
	if d.Connection == defaultFile {
		return ""
	}
	return d.Connection
}

// DSN is the connection string of PostgreSQL, without the password.
func (d *Database) DSN() string {
	if c := d.connection(); c != "" {
		return c
	}
	var words []string
	add := func(key, value string) {
		if value != "" {
			words = append(words, key+"='"+strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value)+"'")
		}
	}
	add("host", d.Host)
	add("port", strconv.Itoa(d.Port))
	add("dbname", d.Name)
	add("user", d.User)
	add("sslmode", d.TLS)
	add("sslrootcert", d.CAFile)
	return strings.Join(words, " ")
}

// Where says in a message which database it is.
func (d *Database) Where() string {
	if d.Postgres() {
		return d.DSN()
	}
	return d.Connection
}
