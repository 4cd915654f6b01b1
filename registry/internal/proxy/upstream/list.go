package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"slipway/registry/internal/oci"
)

// Bounds of lists, over all pages.
const (
	maxPages     = 1000
	maxListBytes = 16 << 20
	maxTags      = 200_000
	maxReferrers = 10_000
)

// Tags lists the tags of a repository in the upstream's order, without those that are invalid.
func (c *Client) Tags(ctx context.Context, name oci.Name) ([]oci.Tag, error) {
	tags := []oci.Tag{}
	err := c.pages(ctx, name, c.at(string(name)+"/tags/list"), nil, func(body []byte) (n int, last string, err error) {
		var page struct {
			Tags []string `json:"tags"`
		}
		if err := json.Unmarshal(body, &page); err != nil {
			return 0, "", err
		}
		for _, t := range page.Tags {
			if tag, err := oci.ParseTag(t); err == nil {
				tags = append(tags, tag)
			}
			last = t
		}
		if len(tags) > maxTags {
			return 0, "", fmt.Errorf("more than %d tags", maxTags)
		}
		return len(page.Tags), last, nil
	})
	return tags, err
}

// Referrers lists the manifests that refer to the subject. For a registry without the
// referrers API it reads the fallback tag.
func (c *Client) Referrers(ctx context.Context, name oci.Name, subject oci.Digest) ([]oci.Descriptor, error) {
	list := []oci.Descriptor{}
	add := func(body []byte) (n int, last string, err error) {
		var page struct {
			Manifests []oci.Descriptor `json:"manifests"`
		}
		if err := json.Unmarshal(body, &page); err != nil {
			return 0, "", err
		}
		for _, d := range page.Manifests {
			if _, err := oci.ParseDigest(string(d.Digest)); err == nil {
				list = append(list, d)
			}
		}
		if len(list) > maxReferrers {
			return 0, "", fmt.Errorf("more than %d referrers", maxReferrers)
		}
		return len(page.Manifests), "", nil
	}
	err := c.pages(ctx, name, c.at(string(name)+"/referrers/"+string(subject)), http.Header{"Accept": {oci.MediaTypeIndex}}, add)
	if ReasonOf(err) != NotFound {
		return list, err
	}
	tag, err := oci.ParseTag(string(subject.Algorithm()) + "-" + subject.Hex())
	if err != nil {
		return list, nil //nolint:nilerr // a digest too long for a tag has no fallback
	}
	m, err := c.Manifest(ctx, name, oci.Reference{Tag: tag})
	if ReasonOf(err) == NotFound {
		return list, nil
	}
	if err != nil {
		return nil, err
	}
	// A registry may take the tag for another spelling of the digest, as GitLab does, and
	// answer with the subject itself.
	if parsed, err := oci.ReadManifest(m.Bytes); err != nil || !oci.IsIndex(parsed.MediaType) || m.Digest == subject {
		return list, nil //nolint:nilerr // Manifest has checked it
	}
	_, _, err = add(m.Bytes)
	return list, err
}

// pages reads a list page by page. page returns how many entries a page has, and the last one;
// "" if a list can't be continued behind a name.
func (c *Client) pages(ctx context.Context, name oci.Name, at *url.URL, header http.Header, page func([]byte) (n int, last string, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, 2*c.opts.Timeout)
	defer cancel()
	left, before := int64(maxListBytes), ""
	for range maxPages {
		resp, err := c.ask(ctx, http.MethodGet, name, at, header) //nolint:bodyclose // read closes it
		if err != nil {
			return err
		}
		body, err := read(resp.Body, left)
		if err != nil {
			return err
		}
		left -= int64(len(body))
		n, last, err := page(bytes.TrimSpace(body))
		if err != nil {
			return invalidAnswer("a list of %s: %w", name, err)
		}
		link, more := nextLink(resp.Header)
		if !more {
			return nil
		}
		at = following(at, link, last)
		switch {
		case at == nil && n == 0:
			return nil
		case at == nil || last != "" && last == before:
			return invalidAnswer("a list of %s has a next page that cannot be read: %.200q", name, link)
		}
		before = last
	}
	return invalidAnswer("a list of %s has more than %d pages", name, maxPages)
}

// following returns the page that a link of the page at names. It takes only the query from
// the link: reverse proxies rewrite hosts and paths without the links, and another path isn't
// that of this list. If the query leads nowhere, the page begins behind last; without last the
// result is nil.
func following(at *url.URL, link, last string) *url.URL {
	next := *at
	if u, err := url.Parse(link); err == nil && u.RawQuery != "" && u.RawQuery != at.RawQuery {
		next.RawQuery = u.RawQuery
		return &next
	}
	query := at.Query()
	if last == "" || query.Get("last") == last {
		return nil
	}
	query.Set("last", last)
	next.RawQuery = query.Encode()
	return &next
}

// nextLink returns the target of rel="next" (RFC 8288).
func nextLink(h http.Header) (target string, ok bool) {
	for rest := strings.Join(h.Values("Link"), ","); ; {
		var parameters string
		if _, rest, ok = strings.Cut(rest, "<"); !ok {
			return "", false
		}
		if target, rest, ok = strings.Cut(rest, ">"); !ok {
			return "", false
		}
		parameters, _, _ = strings.Cut(rest, "<")
		for p := range strings.SplitSeq(parameters, ";") {
			key, value, _ := strings.Cut(p, "=")
			relations := strings.Fields(strings.Trim(value, " \t,\""))
			if strings.EqualFold(strings.TrimSpace(key), "rel") && slices.ContainsFunc(relations, func(r string) bool { return strings.EqualFold(r, "next") }) {
				return target, true
			}
		}
	}
}
