package client

import (
	"net/http"
	"net/url"

	"slipway/relay/internal/relay"
)

// Origins tells requests that another site has caused: browsers say where a request
// comes from, and send cookies and passwords along with any. Who is no browser says
// nothing and is let in. The zero value trusts the site that is asked.
type Origins struct{ check *http.CrossOriginProtection }

// NewOrigins trusts pages of publicURL, where a proxy hides it; "" is none.
func NewOrigins(publicURL string) (Origins, error) {
	o := Origins{check: http.NewCrossOriginProtection()}
	if publicURL == "" {
		return o, nil
	}
	u, err := url.Parse(publicURL)
	if err != nil {
		return o, err
	}
	return o, o.check.AddTrustedOrigin(u.Scheme + "://" + u.Host)
}

// Own refuses a request that would change something and comes from another site.
func (o Origins) Own(r *http.Request) error {
	check := o.check
	if check == nil {
		check = http.NewCrossOriginProtection()
	}
	if err := check.Check(r); err != nil {
		return &relay.Error{Kind: relay.KindForbidden, Message: "This request comes from another site.", Err: err}
	}
	return nil
}
