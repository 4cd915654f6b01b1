package request

import (
	"net/http"
	"net/url"

	"slipway/relay/internal/refusal"
)

// Origins refuses cross-site requests. Browsers send cookies and passwords with any request and name its origin; other
// clients name none and are admitted. The zero value trusts the requested host only.
type Origins struct{ check *http.CrossOriginProtection }

// NewOrigins trusts pages of publicURL besides those of the requested host; "" adds none.
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

// Own refuses a state-changing request that comes from another site.
func (o Origins) Own(r *http.Request) error {
	check := o.check
	if check == nil {
		check = http.NewCrossOriginProtection()
	}
	if err := check.Check(r); err != nil {
		return &refusal.Error{Kind: refusal.KindForbidden, Message: "Cross-site requests are refused.", Err: err}
	}
	return nil
}
