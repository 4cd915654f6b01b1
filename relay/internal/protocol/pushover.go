package protocol

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
)

// Pushover is Pushover's message API (https://pushover.net/api): token is the application's, user is ignored.
func Pushover() Protocol {
	const messages, validate = "/1/messages.json", "/1/users/validate.json"
	return Protocol{
		Name:      "pushover",
		Routes:    append(PostAt(messages, validate, "/1/receipts/{receipt}/cancel.json"), Route{Method: http.MethodGet, Path: "/1/receipts/{receipt}.json"}),
		BodyToken: true,
		Token: func(r *Request) (string, error) {
			if r.Body == nil {
				return Token(r)
			}
			in, err := pushoverMessageOf(r)
			return in.token, err
		},
		Files: true,
		Parse: func(r *Request, _ App) (Parsed, error) {
			in, err := pushoverMessageOf(r)
			if err != nil {
				return Parsed{}, err
			}
			if r.URL.Path == validate {
				return Parsed{}, nil
			}
			if receipt, ok := r.Path["receipt"]; ok {
				return Parsed{Receipt: &Receipt{Message: messageOf(receipt), Stop: r.Method == http.MethodPost}}, nil
			}
			if in.file != nil {
				r.Files = append(r.Files, File{Content: in.file})
			}
			if in.fileType != "" && len(r.Files) == 1 {
				r.Files[0].Type = in.fileType
			}
			d, err := in.draft()
			d.Files = r.Files
			return Parsed{Drafts: []post.Draft{d}}, err
		},
		Reply: replyPushover,
		Fail:  failPushover,
	}
}

type pushoverMessage struct {
	token, message, title string
	url, urlTitle         string
	priority              *int
	retry, expire         *int
	html, monospace       bool
	timestamp             *int   // Unix seconds
	file                  []byte // nil for none
	fileType              string
}

func pushoverMessageOf(r *Request) (in pushoverMessage, err error) {
	set := func(name string, v request.Value) (err error) {
		if _, isFile := v.File(); isFile {
			return nil // it is one of the request's files
		}
		switch name {
		case "token":
			return setText(&in.token, name, v)
		case "message":
			return setText(&in.message, name, v)
		case "title":
			return setText(&in.title, name, v)
		case "url":
			return setText(&in.url, name, v)
		case "url_title":
			return setText(&in.urlTitle, name, v)
		case "priority":
			in.priority, err = v.Integer(name)
		case "retry":
			in.retry, err = v.Integer(name)
		case "expire":
			in.expire, err = v.Integer(name)
		case "timestamp":
			in.timestamp, err = v.Integer(name)
		case "html":
			in.html = isOn(v)
		case "monospace":
			in.monospace = isOn(v)
		case "attachment_type":
			return setText(&in.fileType, name, v)
		case "attachment_base64":
			var text string
			if err := setText(&text, name, v); err != nil {
				return err
			}
			if in.file, err = base64.StdEncoding.DecodeString(text); err != nil {
				return ErrNotBase64
			}
		}
		return err
	}
	if err := request.EachOf(r.URL.Query(), set); err != nil {
		return in, err
	}
	return in, request.Each(r.Header.Get("Content-Type"), r.Body, set)
}

// isOn reports whether a switch is on: 1, or true as some clients write it.
func isOn(v request.Value) bool {
	n, err := v.Integer("")
	on, _ := v.Boolean("") // nil if it is none
	return err == nil && n != nil && *n == 1 || on != nil && *on
}

const (
	minRetry  = 30    // seconds
	maxExpire = 10800 // seconds
)

func (m *pushoverMessage) draft() (post.Draft, error) {
	switch {
	case m.message == "":
		return post.Draft{}, refusal.Invalid("message", "message cannot be blank")
	case m.priority != nil && (*m.priority < -2 || *m.priority > 2):
		return post.Draft{}, refusal.Invalid("priority", "priority is invalid, must be between -2 and 2")
	case m.priority != nil && *m.priority == 2 && (m.retry == nil || *m.retry < minRetry):
		return post.Draft{}, refusal.Invalid("retry", "retry must be supplied with priority=2 and be at least 30")
	case m.priority != nil && *m.priority == 2 && (m.expire == nil || *m.expire < 1 || *m.expire > maxExpire):
		return post.Draft{}, refusal.Invalid("expire", "expire must be supplied with priority=2 and be at most 10800")
	}
	d := post.Draft{Content: post.Content{Title: m.title, Body: m.message, ContentType: format.Plain}, Priority: m.priority}
	if m.timestamp != nil && *m.timestamp > 0 {
		d.EventAt = time.Unix(int64(*m.timestamp), 0)
	}
	if m.priority != nil && *m.priority == 2 {
		d.Retry, d.Expire = time.Duration(min(*m.retry, maxExpire))*time.Second, time.Duration(*m.expire)*time.Second
	}
	if m.html || m.monospace || m.url != "" {
		body := format.Text(m.message)
		if m.html {
			body = m.message // cleaned like all HTML
		} else if m.monospace {
			body = "<pre><code>" + format.Escape(m.message) + "</code></pre>"
		}
		d.Body, d.ContentType = body, format.HTML
		if m.url != "" {
			d.Body = format.Paragraphs(body, format.Link(m.urlTitle, m.url))
		}
	}
	return d, nil
}

// receiptLength is that of Pushover's receipts.
const receiptLength = 30

// receiptOf returns Pushover's name of a message whose acknowledgement can be asked for.
func receiptOf(id int64) string { return fmt.Sprintf("r%0*d", receiptLength-1, id) }

// showReceipt adds the fields of Pushover's receipt of a message with reminders.
func showReceipt(out map[string]any, a *post.Alert, now time.Time) {
	flag := map[bool]int{true: 1}
	out["acknowledged"], out["acknowledged_at"] = flag[a.AcknowledgedAt != 0], a.AcknowledgedAt/1000
	out["acknowledged_by"], out["acknowledged_by_device"] = a.AcknowledgedBy, ""
	out["last_delivered_at"] = a.BeganAt / 1000
	if a.Repeats > 0 {
		out["last_delivered_at"] = (a.NextAt - a.Retry) / 1000
	}
	out["expired"], out["expires_at"] = flag[a.Expired(now.UnixMilli())], a.ExpiresAt/1000
	out["called_back"], out["called_back_at"] = 0, 0
}

// messageOf returns the id of the message that a receipt names; 0 if it is none.
func messageOf(receipt string) int64 {
	id, err := strconv.ParseInt(strings.TrimPrefix(receipt, "r"), 10, 64)
	if err != nil || len(receipt) != receiptLength {
		return 0
	}
	return id
}

// pushoverLimit is the monthly limit that clients are told: there is none here, and some fail without the headers.
const pushoverLimit = 1_000_000

func replyPushover(w http.ResponseWriter, res Result) {
	now := time.Now().UTC()
	reset := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	h := w.Header()
	h.Set("X-Limit-App-Limit", strconv.Itoa(pushoverLimit))
	h.Set("X-Limit-App-Remaining", strconv.Itoa(pushoverLimit))
	h.Set("X-Limit-App-Reset", strconv.FormatInt(reset.Unix(), 10))
	out := map[string]any{"status": 1, "request": requestID()}
	if len(res.Messages) > 0 && res.Drafts[0].Retry > 0 {
		out["receipt"] = receiptOf(res.Messages[0].ID)
	}
	switch {
	case res.Receipt != nil && !res.Receipt.Stop:
		showReceipt(out, &res.Alert, now)
	case len(res.Drafts) == 0 && res.Receipt == nil:
		out["devices"], out["licenses"], out["group"] = []string{"matrix"}, []string{}, 0
	}
	request.WriteJSON(w, http.StatusOK, out)
}

func failPushover(w http.ResponseWriter, err error) {
	p := request.ProblemOf(err)
	out := map[string]any{"status": 0, "request": requestID(), "errors": []string{p.Description}}
	status := p.ErrorCode
	var refused *refusal.Error
	if errors.As(err, &refused) && refused.Field != "" {
		out[refused.Field] = "invalid"
	}
	if refusal.KindOf(err) == refusal.KindUnauthorized {
		status = http.StatusBadRequest
		out["token"], out["errors"] = "invalid", []string{"application token is invalid"}
	}
	request.RefusalHeaders(w, err)
	request.WriteJSON(w, status, out)
}

// requestID names an answer, as Pushover's do. Nothing looks it up.
func requestID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
