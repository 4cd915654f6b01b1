package api

import (
	"net/http"

	"go.uber.org/zap"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
)

// checkSignature applies policy.signatures to a manifest that is about to be served: it adds a warning, also to the event, or returns DENIED. Callers who
// may push to the repository are only warned, since they have to read what they sign. Caches of other registries are not checked.
func (a *API) checkSignature(w http.ResponseWriter, r *request, m *registry.Manifest) error {
	if a.opts.Signatures == nil || a.opts.Proxy != nil && a.opts.Proxy.Caches(r.name) {
		return nil
	}
	res, err := a.opts.Signatures.Check(r.Context(), a.repository(r), m)
	if err == nil && res.OK() {
		return nil
	}
	reason := res.Reason()
	if err != nil {
		reason = "the signatures of the manifest cannot be read"
	}
	refused := res.Refuse && (r.grant == nil || !r.grant.Writes(r.name))
	a.opts.Log.Warn("manifest without a valid signature", zap.String("repository", string(r.name)), zap.String("digest", string(m.Digest)),
		zap.String("reason", reason), zap.String("cause", res.Cause), zap.Bool("refused", refused), zap.String("user", r.user), zap.Error(err))
	switch {
	case !refused:
		r.warning = reason
		warn(w, `299 - "`+reason+`"`)
		return nil
	case err != nil:
		return err
	}
	return oci.Explain(oci.CodeDenied, reason)
}
