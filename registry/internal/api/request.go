package api

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"slipway/registry/internal/audit"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/oci"
	"slipway/shared/logging"
)

// request is one request on its way through the API, with what was learned
// about it: handlers read it, and the log line at its end tells it.
type request struct {
	*http.Request
	rec      *logging.Recorder
	row      *row
	name     oci.Name // "" outside repositories
	literal  oci.Name // what to try if name is unknown; "" = nothing
	last     string   // tag, digest or upload id as in the path, unchecked
	user     string   // the authenticated caller; "" is anonymous
	claimed  string   // the name that a refused login gave
	event    string   // "pull", "push", "mount", "delete", "restore": logged when it succeeds
	digest   oci.Digest
	token    string            // ID of the personal access token that it is about
	change   string            // what it changes, for the audit log
	moved    map[string]string // tags of a push that pointed elsewhere, for the audit log
	admitted bool              // the caller may do what the row does
	grant    *auth.Grant       // who sends it and what they may do; nil = everybody may do everything
	warning  string            // why policy.signatures warns of what is pulled, "" if it doesn't
	refusal  auth.Reason       // why it may not pass, "" if it may
	cause    error             // of the refusal, for the log
	fresh    bool              // its password was compared, not remembered
	err      error
	gone     bool // the client hung up, or was cut off
	stalled  bool // it was cut off because it was too slow
	query    url.Values
}

// maxBody bounds a body of JSON, in bytes.
const maxBody = 64 << 10

// decode reads a body of JSON, and refuses unknown fields. A body may take minutes, so the caller's rights are confirmed after it.
func (a *API) decode(w http.ResponseWriter, r *request, into any) error {
	d := json.NewDecoder(io.LimitReader(r.Body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return badRequest("not the expected JSON: " + err.Error())
	}
	return a.confirm(w, r)
}

// param is a parameter of the query string, "" if it is absent.
func (r *request) param(key string) string { return r.params().Get(key) }

// params is the query string. What net/url cannot read of it is left out.
func (r *request) params() url.Values {
	if r.query == nil && r.URL.RawQuery != "" {
		r.query = r.URL.Query()
	}
	return r.query
}

// logEnd writes the line of a request that has ended: one for each push, pull,
// mount, deletion, login and error, with the field names of CNCF distribution.
// Other requests are told at level debug.
func (r *request) logEnd(status int) {
	level, message := r.line(status)
	entry := r.row.api.opts.Log.Check(level, message)
	if entry == nil {
		return
	}
	fields := make([]zap.Field, 0, 22)
	fields = append(
		fields,
		zap.String("http.request.id", r.rec.ID()),
		zap.String("http.request.method", r.Method),
		zap.String("http.request.host", r.Host),
		zap.String("http.request.uri", logging.RedactURI(r.RequestURI)),
		zap.String("http.request.remoteaddr", r.RemoteAddr),
		zap.String("http.request.useragent", r.UserAgent()),
		zap.Int("http.response.status", status),
		zap.Int64("http.response.written", r.rec.Bytes()),
		zap.Duration("http.response.duration", r.rec.Elapsed()),
	)
	fields = r.appendVars(fields)
	if r.cause != nil {
		fields = append(fields, zap.NamedError("auth.cause", r.cause))
	}
	if r.err != nil {
		fields = appendError(fields, r.err)
	}
	entry.Write(fields...)
}

// line chooses level and message. That something isn't there is what a push
// asks for each layer, so it is no warning.
func (r *request) line(status int) (zapcore.Level, string) {
	switch {
	case r.stalled:
		return zapcore.InfoLevel, errClientStalled.Error()
	case r.gone:
		return zapcore.InfoLevel, "the client went away"
	case r.refusal == auth.NoCredentials:
		return zapcore.InfoLevel, "authentication required"
	case r.refusal != "" && status == http.StatusForbidden:
		return zapcore.WarnLevel, "access denied"
	case r.refusal != "":
		return zapcore.WarnLevel, "authentication failed"
	case status >= 500:
		return zapcore.ErrorLevel, "response completed with error"
	case r.err != nil && status < 400:
		return zapcore.ErrorLevel, "response cut short"
	case status == http.StatusNotFound:
		return zapcore.InfoLevel, "response completed with error"
	case status >= 400:
		return zapcore.WarnLevel, "response completed with error"
	case r.event != "" && (status < 300 || status == http.StatusTemporaryRedirect):
		return zapcore.InfoLevel, r.event
	case r.fresh:
		return zapcore.InfoLevel, "authorized request"
	default:
		return zapcore.DebugLevel, "response completed"
	}
}

// appendVars adds what the request was about.
func (r *request) appendVars(fields []zap.Field) []zap.Field {
	digest := string(r.digest)
	if r.row.endpoint.last == "digest" {
		digest = "" // is the path's last element
	}
	for _, f := range [...]struct{ key, value string }{
		{"auth.user.name", r.user},
		{"auth.user.claimed", r.claimed},
		{"auth.refusal", string(r.refusal)},
		{"vars.name", string(r.name)},
		{"vars.digest", digest},
		{"vars." + r.row.endpoint.last, r.last},
	} {
		if f.key != "" && f.value != "" {
			fields = append(fields, zap.String(f.key, f.value))
		}
	}
	return fields
}

// appendError adds what the client was told, and the cause, which it was not.
func appendError(fields []zap.Field, err error) []zap.Field {
	_, list := clientErrors(err)
	first := list[0]
	fields = append(fields, zap.String("err.code", string(first.Code)), zap.String("err.message", first.Text()))
	if first.Detail != nil {
		fields = append(fields, zap.Any("err.detail", first.Detail))
	}
	if len(list) > 1 {
		fields = append(fields, zap.Int("err.count", len(list)))
	}
	if first.Code == oci.CodeUnknown || first.Err != nil {
		fields = append(fields, zap.NamedError("err.cause", err))
	}
	return fields
}

// audit writes what the request did into the audit log: acts, whether they succeeded or
// not, logins and refusals.
func (r *request) audit(status int) {
	log := r.row.api.opts.Audit
	if log == nil {
		return
	}
	event := r.auditEvent(status)
	if event == "" {
		return
	}
	token := r.token
	if r.grant != nil {
		token = cmp.Or(r.grant.PersonalToken(), token) // Change names the token that the request is about
	}
	log.Write(audit.Record{
		Time: time.Now(), Event: event, Who: cmp.Or(r.user, "anonymous"), Token: token, Claimed: r.claimed, From: r.RemoteAddr, Method: r.Method,
		Repository: string(r.name), Reference: r.last, Digest: string(r.digest), Moved: r.moved, Change: r.change,
		Status: status, Reason: string(r.refusal), RequestID: r.rec.ID(),
	})
}

// auditEvent is "" for what is no act: reads of lists, what a client asks before it
// uploads, and requests that only learn that a login is needed or fail before that, such as
// those with an invalid name: anybody can send any number of them.
func (r *request) auditEvent(status int) string {
	switch {
	case r.refusal == auth.NoCredentials && status == http.StatusUnauthorized:
		return ""
	case r.refusal != "":
		return "refused"
	case r.event == "pull" && status == http.StatusNotFound:
		return ""
	case r.event != "" && r.admitted:
		return r.event
	case r.fresh:
		return "login"
	default:
		return ""
	}
}

// noteMoves remembers which of the tags of a push point at another manifest now.
func (a *API) noteMoves(r *request, before map[oci.Tag]oci.Digest) {
	for tag, d := range before {
		if d != r.digest {
			if r.moved == nil {
				r.moved = map[string]string{}
			}
			r.moved[string(tag)] = string(d)
		}
	}
}

// tagsBefore returns the targets of the tags of a push, those that exist; nil without an audit
// log.
func (a *API) tagsBefore(r *request, ref oci.Reference, more []oci.Tag) map[oci.Tag]oci.Digest {
	if a.opts.Audit == nil {
		return nil
	}
	before := map[oci.Tag]oci.Digest{}
	for _, tag := range append([]oci.Tag{ref.Tag}, more...) {
		if tag == "" {
			continue
		}
		if d, ok := a.repository(r).TagTarget(r.Context(), tag); ok {
			before[tag] = d
		}
	}
	return before
}
