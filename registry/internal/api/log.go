package api

import (
	"net/http"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"slipway/registry/internal/auth"
	"slipway/registry/internal/oci"
	"slipway/shared/logging"
)

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
