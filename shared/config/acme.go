package config

import (
	"fmt"
	"net/url"
	"regexp"
)

// hostName matches a name for which a certificate can be issued: a DNS name with a dot, without a wildcard, in lower case.
var hostName = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// ACME adds the problems with the settings hosts and directoryurl of a section that configures certificates from an ACME
// authority (RFC 8555). directoryURL may be "".
func (p *Problems) ACME(section string, hosts []string, directoryURL string) {
	for i, host := range hosts {
		if !hostName.MatchString(host) {
			p.Addf(fmt.Sprintf("%s.hosts[%d]", section, i), "%q must be a full name in lower case, such as service.example.org, without port and wildcard", host)
		}
	}
	if u, err := url.Parse(directoryURL); directoryURL != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
		p.Addf(section+".directoryurl", "%q is not a URL such as https://acme.example.org/directory", directoryURL)
	}
}
