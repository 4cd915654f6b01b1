package urls

import (
	"crypto/tls"
	"net/http"
	"testing"
)

func TestRootOfURLs(t *testing.T) {
	type h = map[string]string
	for _, c := range []struct {
		name         string
		prefix, host string
		relative     bool
		header       h
		tls          bool
		want         string
	}{
		{name: "plain", want: "http://reg:5000"},
		{name: "tls", tls: true, want: "https://reg:5000"},
		{name: "prefix", prefix: "/r/", want: "http://reg:5000/r"},
		{name: "deep prefix", prefix: "a/b", want: "http://reg:5000/a/b"},
		{name: "x-forwarded-proto", header: h{"X-Forwarded-Proto": "https"}, want: "https://reg:5000"},
		{name: "x-forwarded-proto of two proxies", header: h{"X-Forwarded-Proto": "HTTPS, http"}, want: "https://reg:5000"},
		{name: "x-forwarded-host", header: h{"X-Forwarded-Host": "out.example , in"}, want: "http://out.example"},
		{name: "both and prefix", prefix: "/r", header: h{"X-Forwarded-Proto": "https", "X-Forwarded-Host": "out:8443"}, want: "https://out:8443/r"},
		{name: "forwarded", header: h{"Forwarded": `for=1.2.3.4;Proto=https;HOST="out.example:8443", proto=http`}, want: "https://out.example:8443"},
		{name: "forwarded stands above x-forwarded", header: h{"Forwarded": "for=1.2.3.4", "X-Forwarded-Proto": "https"}, want: "http://reg:5000"},
		{name: "forwarded broken", header: h{"Forwarded": `proto="https`, "X-Forwarded-Host": "x"}, want: "http://reg:5000"},
		{name: "forwarded escaped", header: h{"Forwarded": `host="o\ut"`}, want: "http://out"},
		{name: "strange scheme", header: h{"X-Forwarded-Proto": "javascript"}, want: "http://reg:5000"},
		{name: "strange host", header: h{"X-Forwarded-Host": "evil/path?x"}, want: "http://reg:5000"},
		{name: "ipv6", header: h{"X-Forwarded-Host": "[::1]:5000"}, want: "http://[::1]:5000"},
		{name: "relative", relative: true, want: ""},
		{name: "relative with prefix", relative: true, prefix: "/r/", header: h{"X-Forwarded-Proto": "https"}, want: "/r"},
		{name: "host", host: "https://pub.example", header: h{"X-Forwarded-Host": "x"}, want: "https://pub.example"},
		{name: "host stands above relative", host: "https://pub.example/", relative: true, want: "https://pub.example"},
		{name: "host and prefix", host: "https://pub.example", prefix: "/r/", want: "https://pub.example/r"},
		{name: "host with the prefix in it", host: "https://pub.example/r/", prefix: "/r/", want: "https://pub.example/r"},
	} {
		t.Run(c.name, func(t *testing.T) {
			u, err := New(c.prefix, c.host, c.relative)
			if err != nil {
				t.Fatal(err)
			}
			r := &http.Request{Host: "reg:5000", Header: http.Header{}}
			for k, v := range c.header {
				r.Header.Set(k, v)
			}
			if c.tls {
				r.TLS = &tls.ConnectionState{}
			}
			if got := u.Root(r); got != c.want {
				t.Errorf("root %q, want %q", got, c.want)
			}
		})
	}
	for _, host := range []string{"pub.example", "https://", "://x", "pub.example:443"} {
		if _, err := New("", host, false); err == nil {
			t.Errorf("http.host %q is accepted", host)
		}
	}
}

func TestOwn(t *testing.T) {
	u, err := New("", "https://Registry.example.org", false)
	if err != nil {
		t.Fatal(err)
	}
	r := &http.Request{Host: "10.0.0.5:5000", Header: http.Header{"X-Forwarded-Host": {"front.example.org"}}}
	for host, want := range map[string]bool{
		"registry.example.org": true, "registry.example.org:443": true, "10.0.0.5:5000": true, "front.example.org": true, "more.example.org": true,
		"10.0.0.5": false, "registry.example.org:5000": false, "docker.io": false,
	} {
		if got := u.Own(r, host, []string{"more.example.org"}); got != want {
			t.Errorf("%s: %v", host, got)
		}
	}
}
