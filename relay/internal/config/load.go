package config

import (
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"slipway/shared/config"
)

// DefaultPath is read when neither a flag nor RELAY_CONFIG names a file, and
// only if it is there.
const DefaultPath = "/etc/relay/config.yml"

// aliases are the variables that bear no prefix.
var aliases = map[string]string{
	"MATRIX_PASSWORD":      "matrix.password",
	"MATRIX_PASSWORD_FILE": "matrix.password_file",
	"ADMIN_PASSWORD":       "admin.password",
	"ADMIN_PASSWORD_FILE":  "admin.password_file",
}

// Load reads the file, or the one that [Path] finds when file is empty, and
// lays environ over it. The report is never nil.
func Load(file string, environ []string) (*Config, *config.Report, error) {
	path := Path(file, environ)
	cfg, report, err := load(config.Options{File: path, Environ: environ})
	if err == nil || path != "" || lookup(environ, Prefix+"_MATRIX_HOMESERVER") != "" {
		return cfg, report, err // without a file all is in variables
	}
	none := errors.New("no configuration file: name one with --config or $" + PathVariable + "; there is none at " + DefaultPath)
	if !slices.ContainsFunc(environ, isSetting) {
		return cfg, report, none // and nothing else is worth saying
	}
	return cfg, report, errors.Join(none, err)
}

// isSetting reports whether a variable holds a setting.
func isSetting(entry string) bool {
	name, value, _ := strings.Cut(entry, "=")
	_, alias := aliases[name]
	return value != "" && (alias || strings.HasPrefix(name, Prefix+"_") && !slices.Contains(ignored, name))
}

// ignored are variables of the prefix that are no settings.
var ignored = []string{PathVariable, "RELAY_URL", "RELAY_TOKEN"}

// Path is the configuration file in force: the one named, else the one that
// RELAY_CONFIG names, else [DefaultPath] if it is there, else none.
func Path(file string, environ []string) string {
	if file != "" {
		return file
	}
	if file = lookup(environ, PathVariable); file != "" {
		return file
	}
	if _, err := os.Stat(DefaultPath); err == nil {
		return DefaultPath
	}
	return ""
}

func load(o config.Options) (*Config, *config.Report, error) {
	o.Prefix, o.Aliases, o.Expand = Prefix, aliases, true
	o.Ignore = ignored
	cfg := Default()
	report, err := config.Load(&cfg, o)
	if conflict := cfg.HTTP.joinPort(report); err == nil || conflict != nil && !strings.Contains(err.Error(), "http.port") {
		err = errors.Join(err, conflict)
	}
	if err != nil {
		return nil, report, err
	}
	if cfg.Matrix.EncryptNew && cfg.Matrix.PickleKey.Empty() && cfg.Database.Postgres() {
		report.Warnings = append(report.Warnings, noPickleKey)
	}
	if strings.HasPrefix(cfg.HTTP.PublicURL, "https://") && !cfg.HTTP.TLS() && len(cfg.HTTP.TrustedProxies) == 0 {
		report.Warnings = append(report.Warnings, noProxies)
	}
	return &cfg, report, nil
}

const noProxies = "http.publicurl is https://, but http.trustedproxies is empty: every client seems to have the proxy's address, so limits for one address apply to all of them; set it to the proxy's address, such as 127.0.0.1"

const noPickleKey = "matrix.pickle_key is not set, so the rooms that the bot makes are not encrypted, and messages to encrypted rooms wait: set it, such as openssl rand -hex 32 makes, or set matrix.encrypt_new_rooms: false"

// joinPort brings PushBits' separate port into the address.
func (h *HTTP) joinPort(report *config.Report) error {
	if h.Port != 0 && report.Origins["http.listenaddress"] == "" {
		h.ListenAddress = "0.0.0.0"
	}
	port := "8080"
	if h.Port != 0 {
		port = strconv.Itoa(h.Port)
	}
	if _, given, err := net.SplitHostPort(h.ListenAddress); err != nil {
		h.ListenAddress = net.JoinHostPort(strings.Trim(h.ListenAddress, "[]"), port)
	} else if h.Port != 0 && given != port {
		text := "is " + port + ", but http.listenaddress has the port " + given + "; leave one of them out"
		return &config.Problem{Key: "http.port", Origin: report.Origins["http.port"], Text: text}
	}
	return nil
}

func lookup(environ []string, name string) string {
	i := slices.IndexFunc(environ, func(e string) bool { return strings.HasPrefix(e, name+"=") })
	if i < 0 {
		return ""
	}
	return environ[i][len(name)+1:]
}
