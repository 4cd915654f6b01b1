package config

import (
	"net/url"
	"strings"
	"time"

	"slipway/shared/config"
)

// Middleware changes where clients are redirected to.
type Middleware struct {
	Storage    []StorageMiddleware `key:"storage"`
	Registry   config.Refused      `key:"registry" why:"there is none; distribution has one only if it is built in"`
	Repository config.Refused      `key:"repository" why:"there is none; distribution has one only if it is built in"`
}

// StorageMiddleware is one of them; they change what the ones before made.
type StorageMiddleware struct {
	Name     string            `key:"name" choices:"redirect,rewrite,cloudfront" doc:"redirect sends clients to baseurl, on files too; rewrite changes the URL; cloudfront signs URLs of a CloudFront distribution. Required."`
	Disabled bool              `key:"disabled" doc:"Leave it out. Distribution ignores this key."`
	Options  MiddlewareOptions `key:"options"`
}

// MiddlewareOptions are those of redirect, rewrite and cloudfront.
type MiddlewareOptions struct {
	BaseURL        string `key:"baseurl" doc:"Of redirect: URL of the tree on a server; /docker/registry/v2/blobs/… is added, nothing is signed. Of cloudfront: URL of the distribution."`
	Scheme         string `key:"scheme" doc:"Of rewrite: scheme instead of the URL's."`
	Host           string `key:"host" doc:"Of rewrite: host instead of the URL's. Signatures of S3 and Google are valid for one host."`
	TrimPathPrefix string `key:"trimpathprefix" doc:"Of rewrite: what is removed from the beginning of the URL's path."`

	PrivateKey      string        `key:"privatekey" doc:"Of cloudfront: file of the RSA key that signs, in PEM. Required there."`
	KeyPairID       string        `key:"keypairid" doc:"Of cloudfront: id of the public key that the distribution trusts. Required there."`
	Duration        time.Duration `key:"duration" min:"1" doc:"Of cloudfront: how long a URL works."`
	IPFilteredBy    string        `key:"ipfilteredby" choices:"none,aws,awsregion" doc:"Of cloudfront: clients that get URLs of the bucket: none, those on AWS, or those in awsregion."`
	AWSRegion       string        `key:"awsregion" doc:"Of cloudfront: regions of Amazon's, separated by commas."`
	UpdateFrequency time.Duration `key:"updatefrequency" min:"1" alias:"updatefrenquency" doc:"Of cloudfront: time between two fetches of Amazon's addresses."`
	IPRangesURL     string        `key:"iprangesurl" doc:"Of cloudfront: list of Amazon's addresses."`
}

func defaultMiddleware() Middleware {
	return Middleware{Storage: []StorageMiddleware{{Options: MiddlewareOptions{
		Duration: 20 * time.Minute, IPFilteredBy: "none", UpdateFrequency: 12 * time.Hour, IPRangesURL: "https://ip-ranges.amazonaws.com/ip-ranges.json",
	}}}}
}

// Base is baseurl; nil if it cannot be one.
func (o *MiddlewareOptions) Base() *url.URL { return baseURL(o.BaseURL) }

// Distribution is baseurl of a CloudFront distribution; nil if it cannot be one.
func (o *MiddlewareOptions) Distribution() *url.URL {
	if !strings.Contains(o.BaseURL, "://") {
		return baseURL("https://" + o.BaseURL)
	}
	return baseURL(o.BaseURL)
}

func baseURL(text string) *url.URL {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil
	}
	return u
}

// Regions returns the regions that awsregion names.
func (o *MiddlewareOptions) Regions() (regions []string) {
	for r := range strings.SplitSeq(o.AWSRegion, ",") {
		if r = strings.ToLower(strings.TrimSpace(r)); r != "" {
			regions = append(regions, r)
		}
	}
	return regions
}

func (m *Middleware) validate(p *config.Problems, onS3 bool) {
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
		case "rewrite":
			if o.Scheme != "" && o.Scheme != "http" && o.Scheme != "https" {
				p.Addf(at+".options.scheme", "%q is neither http nor https", o.Scheme)
			}
			if u, err := url.Parse("//" + o.Host); o.Host != "" && (err != nil || u.Host != o.Host) {
				p.Addf(at+".options.host", "%q is not a host such as cdn.example.com", o.Host)
			}
		case "cloudfront":
			if !onS3 && !s.Disabled {
				p.Addf(at+".name", "cloudfront stands before storage.s3 only")
			}
			o.validateCloudFront(p, at+".options.")
		}
	}
}

func (o *MiddlewareOptions) validateCloudFront(p *config.Problems, at string) {
	if o.Distribution() == nil {
		p.Addf(at+"baseurl", "%q is not a URL such as https://d111111abcdef8.cloudfront.net", o.BaseURL)
	}
	required(p, at+"privatekey", o.PrivateKey)
	required(p, at+"keypairid", o.KeyPairID)
	if o.IPFilteredBy == "awsregion" && len(o.Regions()) == 0 {
		p.Addf(at+"awsregion", "is required for ipfilteredby: awsregion")
	}
	if baseURL(o.IPRangesURL) == nil {
		p.Addf(at+"iprangesurl", "%q is not a URL", o.IPRangesURL)
	}
}
