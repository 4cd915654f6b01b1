package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/access"
	"slipway/registry/internal/audit"
	"slipway/registry/internal/auth"
	"slipway/shared/logging"
)

const (
	maxActs      = 30
	maxActsBytes = 1 << 20 // of the end of the file that are read
)

type actsPage struct {
	frame
	Query string
	Acts  []act
}

// act is a line of the audit log, or consecutive uploads of blobs by one caller to one repository.
type act struct {
	audit.Record
	Uploads int // 0 = this isn't an upload
}

// Where returns the repository with the tag or digest, as clients write it, or what else the line is about.
func (a act) Where() string {
	switch {
	case a.Uploads > 0 || a.Reference == "":
		return a.Repository
	case a.Repository == "":
		return a.Reference
	case strings.Contains(a.Reference, ":"):
		return a.Repository + "@" + a.Reference
	}
	return a.Repository + ":" + a.Reference
}

// uploadID matches the name of an upload in the log, in the place of a tag or digest.
var uploadID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// add adds an earlier line, which counts in the last row if both are uploads of one caller.
func (p *actsPage) add(r *audit.Record) {
	row := act{Record: *r}
	if r.Event == "push" && r.Status < http.StatusBadRequest && uploadID.MatchString(r.Reference) {
		if last := len(p.Acts) - 1; last >= 0 && p.Acts[last].Uploads > 0 && p.Acts[last].Who == r.Who && p.Acts[last].Repository == r.Repository {
			p.Acts[last].Uploads++
			return
		}
		row.Uploads = 1
	}
	p.Acts = append(p.Acts, row)
}

// getActs shows the last lines of the audit log to administrators of a registry with logins.
func (web *Web) getActs(w http.ResponseWriter, v *visit) error {
	if web.o.AuditFile == "" || v.grant == nil || !web.administers(v) {
		return errNoPage
	}
	p := actsPage{frame: web.frame(v, "acts", "Audit"), Query: strings.TrimSpace(v.URL.Query().Get("q"))}
	lines, err := lastLines(web.o.AuditFile)
	if err != nil {
		return err
	}
	for i := len(lines) - 1; i >= 0 && len(p.Acts) < maxActs; i-- {
		var r audit.Record
		if (p.Query == "" || bytes.Contains(lines[i], []byte(p.Query))) && json.Unmarshal(lines[i], &r) == nil {
			p.add(&r)
		}
	}
	return web.pages.Show(w, http.StatusOK, "acts", p)
}

// lastLines reads the end of a file.
func lastLines(path string) ([][]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) { // it was just rotated
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	start := max(0, info.Size()-maxActsBytes)
	content, err := io.ReadAll(io.NewSectionReader(f, start, maxActsBytes))
	if err != nil {
		return nil, err
	}
	lines := bytes.Split(content, []byte("\n"))
	if start > 0 {
		lines = lines[1:] // a part of one
	}
	return lines, nil
}

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
		if web.o.Refused != nil {
			web.o.Refused(refused.Reason)
		}
	default:
		return
	}
	web.o.Audit.Write(record)
}
