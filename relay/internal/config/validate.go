package config

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"slipway/shared/config"
	"slipway/shared/plural"
)

// Validate adds everything that is wrong with the values.
func (c *Config) Validate(p *config.Problems) {
	c.HTTP.validate(p)
	c.Database.validate(p)
	c.Matrix.validate(p)
	c.Admin.validate(p)
	if c.Auth.OIDC != nil {
		c.Auth.OIDC.validate(p)
	}
	c.Hook.validate(p)
	c.SMTP.validate(p, c.HTTP.TLS())
	c.Delivery.validate(p)
	c.Limits.validate(p)
	notNegative(p, "history.retention", c.History.Retention)
	if a := c.Metrics.ListenAddress; a != "" {
		address(p, "metrics.listenaddress", a)
	}
}

func (h *HTTP) validate(p *config.Problems) {
	if _, _, err := net.SplitHostPort(h.ListenAddress); err == nil {
		address(p, "http.listenaddress", h.ListenAddress)
	} else if strings.Contains(h.ListenAddress, ":") && !isIPv6(h.ListenAddress) {
		p.Addf("http.listenaddress", "%q is not host:port", h.ListenAddress)
	}
	if h.Port < 0 || h.Port > 65535 {
		p.Addf("http.port", "%d is not a port", h.Port)
	}
	if (h.CertFile == "") != (h.KeyFile == "") {
		p.Addf("http.certfile", "goes together with http.keyfile; give both or none")
	}
	h.ACME.validate(p, h.CertFile != "")
	if _, err := Networks(h.TrustedProxies); err != nil {
		p.Addf("http.trustedproxies", "%v", err)
	}
	if h.PublicURL != "" {
		httpURL(p, "http.publicurl", h.PublicURL, "https://relay.example.org")
	}
	notNegative(p, "http.draintimeout", h.DrainTimeout)
}

func (a ACME) validate(p *config.Problems, files bool) {
	if !a.Enabled() && (a.Email != "" || a.DirectoryURL != "") {
		p.Addf("http.acme.hosts", "is required")
	}
	if a.Enabled() && files {
		p.Addf("http.acme", "is in place of http.certfile and http.keyfile; leave these out, or it")
	}
	p.ACME("http.acme", a.Hosts, a.DirectoryURL)
}

func (s *SMTP) validate(p *config.Problems, certificate bool) {
	if s.ListenAddress != "" {
		address(p, "smtp.listenaddress", s.ListenAddress)
	}
	if s.Domain == "" || strings.ContainsFunc(s.Domain, func(r rune) bool { return r <= ' ' || r > '~' }) {
		p.Addf("smtp.domain", "%q is not a name such as relay.example.org", s.Domain)
	}
	if s.ImplicitTLS && !certificate {
		p.Addf("smtp.implicittls", "needs http.certfile and http.keyfile, or http.acme")
	}
}

func isIPv6(s string) bool {
	a, err := netip.ParseAddr(strings.Trim(s, "[]"))
	return err == nil && a.Is6()
}

func address(p *config.Problems, key, text string) {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		p.Addf(key, "%q is not host:port", text)
		return
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		p.Addf(key, "%q is not a port", port)
	}
}

// httpURL parses the URL of a setting. It returns nil and adds a problem if it is invalid.
func httpURL(p *config.Problems, key, text, example string) *url.URL {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		p.Addf(key, "%q is not a URL such as %s", text, example)
		return nil
	}
	return u
}

const exampleHomeserver = "https://matrix.example.org"

func validateHomeserver(p *config.Problems, text string) {
	u := httpURL(p, "matrix.homeserver", text, exampleHomeserver)
	if u == nil {
		return
	}
	if path := strings.TrimRight(u.Path, "/"); path == "/_matrix" || strings.Contains(path+"/", "/_matrix/") {
		p.Addf("matrix.homeserver", "%q must end before /_matrix, such as %s", text, exampleHomeserver)
	}
}

func (m *Matrix) validate(p *config.Problems) {
	if m.Homeserver == "" {
		p.Addf("matrix.homeserver", "is missing; it is the homeserver's URL, such as "+exampleHomeserver)
	} else {
		validateHomeserver(p, m.Homeserver)
	}
	switch {
	case m.AccessToken.Empty() && m.Username == "":
		p.Addf("matrix.username", "is missing; it is the bot's Matrix ID, such as @relay:example.org")
	case m.Username != "" && strings.HasPrefix(m.Username, "@") && !isMatrixID(m.Username):
		p.Addf("matrix.username", "%q is not a Matrix ID such as @relay:example.org; a name on the homeserver, such as relay, has no @", m.Username)
	}
	if m.AccessToken.Empty() && m.Password.Empty() {
		p.Addf("matrix.password", "is missing; set MATRIX_PASSWORD, matrix.password_file, or matrix.accesstoken in its place")
	}
	if n := utf8.RuneCountInString(m.PickleKey.Reveal()); n > 0 && n < minPickleKey {
		p.Addf("matrix.pickle_key", "is too short: %s; give it at least %d random ones, such as openssl rand -hex 32 makes", plural.Of(n, "character"), minPickleKey)
	} else if why := config.Weakness(m.PickleKey.Reveal()); n > 0 && why != "" {
		p.Addf("matrix.pickle_key", "%s: openssl rand -hex 32 makes one", why)
	}
	if m.Timeout <= 0 {
		p.Addf("matrix.timeout", "must be more than 0")
	}
	for _, s := range m.Invites.Servers {
		if s == "" || strings.ContainsAny(s, "/@# ") {
			p.Addf("matrix.invites.servers", "%q is not the name of a homeserver such as example.org", s)
		}
	}
}

func (a *Admin) validate(p *config.Problems) {
	if strings.TrimSpace(a.Name) == "" {
		p.Addf("admin.name", "is empty")
	}
	if strings.Contains(a.Name, ":") {
		p.Addf("admin.name", "must not hold a colon, which ends the name in HTTP Basic authentication")
	}
	switch n := utf8.RuneCountInString(a.Password.Reveal()); {
	case n == 0:
		p.Addf("admin.password", "is missing; set ADMIN_PASSWORD or admin.password_file")
	case n < minPassword:
		p.Addf("admin.password", "is too short: %s; give it at least %d", plural.Of(n, "character"), minPassword)
	}
	switch {
	case a.MatrixID == "":
		p.Addf("admin.matrixid", "is missing; it is the administrator's Matrix ID, such as @you:example.org")
	case !isMatrixID(a.MatrixID):
		p.Addf("admin.matrixid", "%q is not a Matrix ID such as @you:example.org", a.MatrixID)
	}
}

// minPassword is what the rules ask of every user's password.
const minPassword = 8

// minSecret is how many characters of a secret that signs keep somebody who has seen
// a signed body from trying them all, if they are random.
const minSecret = 16

// minPickleKey is how many random characters make a key that nobody guesses.
const minPickleKey = 32

func (o *OIDC) validate(p *config.Problems) {
	const key = "auth.oidc."
	p.Issuer(key+"issuer", o.Issuer, "https://id.example.org/realms/main")
	if o.ClientID == "" {
		p.Addf(key+"clientid", "is missing; it is the relay's client ID at the provider")
	}
	if o.NameClaim == "" {
		p.Addf(key+"nameclaim", "is empty; it is a claim such as preferred_username")
	}
	if o.ServerName != "" && (!isMatrixID("@name:"+o.ServerName) || strings.ContainsAny(o.ServerName, "@#")) {
		p.Addf(key+"servername", "%q is not the name of a homeserver such as example.org", o.ServerName)
	}
}

func (h *Hook) validate(p *config.Problems) {
	s := h.Registry.Secret
	if n := utf8.RuneCountInString(strings.TrimSpace(s.Reveal())); !s.Empty() && n < minSecret {
		p.Addf("hook.registry.secret", "is too short: %s without the white space around them; give it at least %d, random ones, such as openssl rand -hex 32 makes", plural.Of(n, "character"), minSecret)
	} else if why := config.Weakness(s.Reveal()); !s.Empty() && why != "" {
		p.Addf("hook.registry.secret", "%s: openssl rand -hex 32 makes one", why)
	}
}

// isMatrixID reports whether text is a user's ID: @localpart:server, at most 255
// bytes (Matrix specification, appendix "User Identifiers"; historical local
// parts may hold anything but a colon).
func isMatrixID(text string) bool {
	local, server, ok := strings.Cut(text, ":")
	return ok && len(text) <= 255 && len(local) > 1 && local[0] == '@' && server != "" && !strings.ContainsAny(text, " \t\r\n/")
}

func (d *Delivery) validate(p *config.Problems) {
	if d.Parallel < 1 || d.Parallel > 1000 {
		p.Addf("delivery.parallel", "must be from 1 to 1000")
	}
	if d.MaxAge <= 0 {
		p.Addf("delivery.maxage", "must be more than 0")
	}
}

func (l *Limits) validate(p *config.Problems) {
	for _, s := range []struct {
		key   string
		value config.Size
	}{{"limits.body", l.Body}, {"limits.message", l.Message}, {"limits.title", l.Title}} {
		if s.value < 1 || s.value > 64<<20 {
			p.Addf(s.key, "must be from 1 to 64MiB")
		}
	}
	if l.Message > l.Body {
		p.Addf("limits.message", "is more than limits.body, so such a message could never come in")
	}
	if l.Attachments < 0 || l.Attachments > 1<<30 {
		p.Addf("limits.attachments", "must be from 0 to 1GiB")
	}
	if l.RatePerMinute < 0 {
		p.Addf("limits.rateperminute", "must not be negative")
	}
	if l.Burst < 0 {
		p.Addf("limits.burst", "must not be negative")
	}
	if l.Waiting < 1 {
		p.Addf("limits.waiting", "must be more than 0")
	}
	if l.Wait < 0 || l.Wait > 5*time.Minute {
		p.Addf("limits.wait", "must be from 0 to 5m")
	}
}

func notNegative(p *config.Problems, key string, d time.Duration) {
	if d < 0 {
		p.Addf(key, "must not be negative")
	}
}
