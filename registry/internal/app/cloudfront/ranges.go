package cloudfront

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// Ranges is the list of Amazon's own networks, of all regions or of some.
type Ranges struct {
	source  string
	regions []string
	log     *zap.Logger
	current atomic.Pointer[networks]
}

// networks is a set of prefixes, with the lengths that occur.
type networks struct {
	prefixes map[netip.Prefix]struct{}
	v4, v6   []int
}

// NewRanges makes a list to be fetched from source. Without regions, all count. The list is empty
// until Watch has fetched it.
func NewRanges(source string, regions []string, log *zap.Logger) *Ranges {
	return &Ranges{source: source, regions: regions, log: log}
}

// Contains reports whether an address is in one of the networks.
func (r *Ranges) Contains(a netip.Addr) bool {
	n := r.current.Load()
	if n == nil {
		return false
	}
	lengths := n.v4
	if a.Is6() {
		lengths = n.v6
	}
	for _, bits := range lengths {
		if p, err := a.Prefix(bits); err == nil {
			if _, ok := n.prefixes[p]; ok {
				return true
			}
		}
	}
	return false
}

const (
	// retry bounds the wait after a fetch that failed.
	retry = time.Minute

	fetchTime = 30 * time.Second
	maxList   = 32 << 20 // the list has about 2 MB
)

// Watch fetches the list at once and then at each interval, until ctx ends. While it can't be
// fetched, the last one stays.
func (r *Ranges) Watch(ctx context.Context, interval time.Duration) {
	for {
		wait := interval
		if n, err := r.fetch(ctx); err == nil {
			r.current.Store(n)
			r.log.Debug("Amazon's networks fetched", zap.Int("networks", len(n.prefixes)))
		} else if ctx.Err() == nil {
			wait = min(interval, retry)
			r.log.Warn("cannot fetch Amazon's networks", zap.String("url", r.source), zap.Error(err), zap.Duration("retry", wait))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

func (r *Ranges) fetch(ctx context.Context) (*networks, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.source, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer is %s", resp.Status)
	}
	content, err := io.ReadAll(io.LimitReader(resp.Body, maxList+1))
	if err == nil && len(content) > maxList {
		err = errors.New("the list is too large")
	}
	if err != nil {
		return nil, err
	}
	return parse(content, r.regions)
}

// parse parses the list in Amazon's format.
func parse(content []byte, regions []string) (*networks, error) {
	type prefix struct {
		V4     netip.Prefix `json:"ip_prefix"`
		V6     netip.Prefix `json:"ipv6_prefix"`
		Region string       `json:"region"`
	}
	var list struct {
		V4 []prefix `json:"prefixes"`
		V6 []prefix `json:"ipv6_prefixes"`
	}
	if err := json.Unmarshal(content, &list); err != nil {
		return nil, fmt.Errorf("the list cannot be read: %w", err)
	}
	n := &networks{prefixes: map[netip.Prefix]struct{}{}}
	add := func(p netip.Prefix, region string, lengths *[]int) {
		if !p.IsValid() || len(regions) > 0 && !slices.Contains(regions, strings.ToLower(region)) {
			return
		}
		n.prefixes[p.Masked()] = struct{}{}
		if !slices.Contains(*lengths, p.Bits()) {
			*lengths = append(*lengths, p.Bits())
		}
	}
	for _, p := range list.V4 {
		add(p.V4, p.Region, &n.v4)
	}
	for _, p := range list.V6 {
		add(p.V6, p.Region, &n.v6)
	}
	if len(n.prefixes) == 0 {
		return nil, errors.New("the list has no networks of these regions")
	}
	return n, nil
}
