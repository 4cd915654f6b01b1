package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
)

// fileAbsent returns the function of a check that fails as long as the file
// exists: operators take an instance out of service by touching it.
func fileAbsent(path string) func(context.Context) error {
	return func(context.Context) error {
		switch _, err := os.Stat(path); {
		case err == nil:
			return errors.New("file exists")
		case errors.Is(err, fs.ErrNotExist):
			return nil
		default:
			return fmt.Errorf("look for the file: %w", err)
		}
	}
}

// httpStatus returns the function of a check that sends HEAD to the address and
// fails unless the answer has the status; 0 is 200. Redirects are followed, to
// other hosts without the header and the address, unless it is the status of one
// that is wanted. What it says does not repeat the address, which may hold a
// password.
func httpStatus(uri string, status int, header http.Header) func(context.Context) error {
	if status == 0 {
		status = http.StatusOK
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment},
		CheckRedirect: func(to *http.Request, via []*http.Request) error { return redirected(to, via, status) },
	}
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodHead, uri, nil)
		if err != nil {
			return err
		}
		if header != nil {
			req.Header, req.Host = header.Clone(), header.Get("Host")
		}
		resp, err := client.Do(req)
		var withAddress *url.Error
		if errors.As(err, &withAddress) {
			return withAddress.Err
		}
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != status {
			return fmt.Errorf("answered %d, not %d", resp.StatusCode, status)
		}
		return nil
	}
}

// redirected returns nil if a redirect may be followed.
func redirected(to *http.Request, via []*http.Request, status int) error {
	switch {
	case status >= 300 && status < 400:
		return http.ErrUseLastResponse
	case len(via) >= 10:
		return errors.New("too many redirects")
	case to.URL.Host != via[0].URL.Host:
		to.Header = http.Header{} // net/http tells it the address, as Referer
	}
	return nil
}

// tcpConnect returns the function of a check that fails when no connection to
// host:port can be made.
func tcpConnect(addr string) func(context.Context) error {
	return func(ctx context.Context) error {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}
