package config

import (
	"net/url"

	"slipway/shared/config"
)

// Middleware changes where clients are redirected to.
type Middleware struct {
	Storage    []StorageMiddleware `key:"storage"`
	Registry   config.Later        `key:"registry" empty:"ok" doc:"Distribution has none either, unless it is built in."`
	Repository config.Later        `key:"repository" empty:"ok" doc:"As middleware.registry."`
}

// StorageMiddleware is one of them; they change what the ones before made.
type StorageMiddleware struct {
	Name     string            `key:"name" choices:"redirect,rewrite" doc:"redirect sends clients below baseurl instead of to a URL of the object store; on files, too. rewrite changes the URL. Required."`
	Disabled bool              `key:"disabled" doc:"Leave it out. Distribution ignores this key."`
	Options  MiddlewareOptions `key:"options"`
}

// MiddlewareOptions are those of redirect and rewrite.
type MiddlewareOptions struct {
	BaseURL        string `key:"baseurl" doc:"Of redirect: URL below which a server has the storage's tree, such as https://cdn.example.com; /docker/registry/v2/blobs/… is added. Nothing is signed: who may read there, that server decides."`
	Scheme         string `key:"scheme" doc:"Of rewrite: scheme instead of the URL's."`
	Host           string `key:"host" doc:"Of rewrite: host, and port if it needs one, instead of the URL's. For servers that sign or that do not check signatures: those of S3 and Google Cloud Storage hold for one host."`
	TrimPathPrefix string `key:"trimpathprefix" doc:"Of rewrite: what is removed from the beginning of the URL's path."`
}

// Base is baseurl; nil if it cannot be one.
func (o *MiddlewareOptions) Base() *url.URL {
	u, err := url.Parse(o.BaseURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil
	}
	return u
}

func (m *Middleware) validate(p *config.Problems) {
	for i := range m.Storage {
		s, at := &m.Storage[i], item("middleware.storage", i)
		o := &s.Options
		switch s.Name {
		case "":
			p.Addf(at+".name", "is required")
		case "redirect":
			if o.Base() == nil {
				p.Addf(at+".options.baseurl", "%q is not a URL such as https://cdn.example.com", o.BaseURL)
			}
			if o.Scheme != "" || o.Host != "" || o.TrimPathPrefix != "" {
				p.Addf(at+".options", "scheme, host and trimpathprefix are of rewrite")
			}
		case "rewrite":
			if o.BaseURL != "" {
				p.Addf(at+".options.baseurl", "is of redirect")
			}
			if o.Scheme != "" && o.Scheme != "http" && o.Scheme != "https" {
				p.Addf(at+".options.scheme", "%q is neither http nor https", o.Scheme)
			}
			if u, err := url.Parse("//" + o.Host); o.Host != "" && (err != nil || u.Host != o.Host) {
				p.Addf(at+".options.host", "%q is not a host such as cdn.example.com", o.Host)
			}
		}
	}
}
