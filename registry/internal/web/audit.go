package web

import (
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/access"
	"slipway/registry/internal/audit"
	"slipway/registry/internal/auth"
	"slipway/shared/logging"
)

// noteLogin writes a login to the pages, or one that was refused, into the log and the audit log.
func (web *Web) noteLogin(w http.ResponseWriter, v *visit, who auth.Session, claimed string, err error) {
	record := audit.Record{
		Time: time.Now(), Event: "login", From: v.RemoteAddr, Method: v.Method, Reference: "pages", Status: http.StatusSeeOther, RequestID: logging.RequestID(w),
	}
	fields := []zap.Field{zap.String("http.request.id", record.RequestID), zap.String("http.request.remoteaddr", v.RemoteAddr)}
	var refused *auth.Refusal
	switch {
	case err == nil:
		record.Who = (&access.Caller{Kind: who.Kind, Name: who.Name}).String()
		web.o.Log.Info("logged in to the pages", append(fields, zap.String("auth.user.name", record.Who))...)
	case errors.As(err, &refused):
		record.Event, record.Who, record.Claimed, record.Status, record.Reason = "refused", "anonymous", claimed, http.StatusUnauthorized, string(refused.Reason)
		web.o.Log.Warn("authentication failed", append(fields, zap.String("auth.user.claimed", claimed), zap.String("auth.refusal", record.Reason))...)
	default:
		return
	}
	web.o.Audit.Write(record)
}
