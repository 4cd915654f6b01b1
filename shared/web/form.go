package web

import (
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// MaxForm bounds a form, in bytes.
const MaxForm = 2 << 20

// ErrFormTooLarge means that a form is larger than [MaxForm].
var ErrFormTooLarge = errors.New("the form is too large")

// ParseForm reads a form, whose body [BoundForm] has bounded. The error is ErrFormTooLarge, or
// that of a form that can't be read.
func ParseForm(r *http.Request) error {
	err := r.ParseForm()
	if err == nil && strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/") {
		err = r.ParseMultipartForm(MaxForm)
	}
	var tooLong *http.MaxBytesError
	if errors.As(err, &tooLong) {
		return ErrFormTooLarge
	}
	return err
}

// BoundForm bounds the body of a request by MaxForm.
func BoundForm(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, MaxForm)
}

// FromSession reports whether a form that was read carries the session's CSRF token.
func FromSession(r *http.Request, csrf string) bool {
	return csrf != "" && subtle.ConstantTimeCompare([]byte(csrf), []byte(r.PostForm.Get("csrf"))) == 1
}

// NextQuery returns the query by which the login page leads back to the page that was asked for.
func NextQuery(r *http.Request, base string) string {
	if r.Method != http.MethodGet || r.URL.Path == base+"/" {
		return ""
	}
	return "?next=" + url.QueryEscape(r.URL.RequestURI())
}

// OwnPage returns path if it is one of the pages below base, or else the first one.
func OwnPage(path, base string) string {
	u, err := url.Parse(path)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(path, base+"/") || strings.HasPrefix(path, "//") || strings.Contains(path, `\`) || strings.HasPrefix(u.Path, base+"/log") {
		return base + "/"
	}
	return path
}

// SetCookie sets a session's cookie, or removes it if the value is "".
func SetCookie(w http.ResponseWriter, c http.Cookie) {
	c.HttpOnly, c.SameSite = true, http.SameSiteLaxMode
	if c.Value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, &c)
}
