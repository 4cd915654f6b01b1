package retention

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"slipway/registry/internal/lastpull"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/storage"
)

// Options configures a plan.
type Options struct {
	Store    storage.Store
	Registry *registry.Registry
	Rules    []Rule
	Pulls    *lastpull.File
	All      bool // report each tag that is kept, too
	// TrustDates judges tags without a push record by the dates of their links, even
	// where a copy of the storage seems to have set them.
	TrustDates bool
	Now        func() time.Time // nil = time.Now
	Deleted    func(*Verdict)   // called for each tag that Apply has deleted; may be nil
	Only       string           // Run applies a plan with this ID only; "" = any
}

// Plan lists the tags that the rules would delete and keep now.
type Plan struct {
	At       time.Time  `json:"at"`
	Rules    int        `json:"rules"`
	Verdicts []*Verdict `json:"verdicts"`           // those that say delete, or all
	Kept     int        `json:"kept"`               // tags that a rule selects and keeps
	Deleted  int        `json:"deleted"`            // tags to be deleted
	Blobs    int        `json:"blobs"`              // which nothing needs then, including manifests
	Bytes    int64      `json:"bytes"`              // in them
	Shared   int64      `json:"shared"`             // bytes that the tags need but something else needs too
	Problems []string   `json:"problems,omitempty"` // what could not be looked at, and is left alone

	begins lastpull.Times // tags whose age counts from now
}

// ID identifies the tags that the plan deletes, with their targets: two plans with the same ID delete the
// same.
func (p *Plan) ID() string {
	h := sha256.New()
	for _, v := range p.Verdicts {
		if v.Delete {
			fmt.Fprintf(h, "%s:%s@%s\n", v.Repository, v.Tag, v.Digest)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Errors of OneAtATime.
var (
	ErrBusy    = errors.New("another caller's plan is being made: try again in a minute")
	ErrTooLong = errors.New("the plan takes too long: make it with registry retention plan")
)

// planTimeout is less than the time that proxies wait for an answer.
const planTimeout = 50 * time.Second

// OneAtATime returns a function that makes plans for requests. It returns ErrBusy while it makes another one, since each reads
// the whole storage, and ErrTooLong after 50 seconds.
func OneAtATime(o Options) func(context.Context) (*Plan, error) {
	var making sync.Mutex
	return func(ctx context.Context) (*Plan, error) {
		if !making.TryLock() {
			return nil, ErrBusy
		}
		defer making.Unlock()
		ctx, cancel := context.WithTimeoutCause(ctx, planTimeout, ErrTooLong)
		defer cancel()
		plan, err := Make(ctx, o)
		if err != nil && errors.Is(context.Cause(ctx), ErrTooLong) {
			err = ErrTooLong
		}
		return plan, err
	}
}

// Make looks at the whole storage and changes nothing.
func Make(ctx context.Context, o Options) (*Plan, error) {
	known, err := o.Pulls.Read(ctx)
	if err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	p := &planner{
		store: o.Store, rules: o.Rules, pulls: known, now: o.Now().UTC(), all: o.All, trustDates: o.TrustDates,
		immutable: func(n oci.Name, t oci.Tag) bool { return o.Registry.Repository(n).Immutable(t) },
		gone:      map[oci.Name]map[oci.Digest]bool{},
		freed:     map[oci.Digest]int64{},
	}
	p.plan.At, p.plan.Rules, p.plan.Verdicts = p.now, len(o.Rules), []*Verdict{}
	for name, err := range tree.Repositories(ctx, o.Store) {
		if err == nil {
			err = p.repository(ctx, name)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			p.problem(name, err)
		}
	}
	if err := p.weigh(ctx); err != nil {
		return nil, err
	}
	return &p.plan, nil
}

// planner is a plan in the making.
type planner struct {
	store      storage.Store
	rules      []Rule
	pulls      lastpull.Times
	now        time.Time
	all        bool
	trustDates bool
	immutable  func(oci.Name, oci.Tag) bool
	plan       Plan

	gone  map[oci.Name]map[oci.Digest]bool // manifests that nothing holds then
	freed map[oci.Digest]int64             // blobs that may be freed, and their sizes
}

// problem notes a repository that cannot be looked at: nothing in it is deleted.
func (p *planner) problem(name oci.Name, err error) {
	if name == "" {
		name = "the root of the repositories"
	}
	p.plan.Problems = append(p.plan.Problems, fmt.Sprintf("%s: %v", name, err))
}

func (p *planner) repository(ctx context.Context, name oci.Name) error {
	var tags []tree.Tag
	for t, err := range tree.Tags(ctx, p.store, name) {
		if err != nil {
			return err
		}
		tags = append(tags, t)
	}
	verdicts, err := p.judge(ctx, name, tags)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(verdicts, func(v *Verdict) bool { return v.Delete }) {
		if err := p.follow(ctx, name, verdicts); err != nil {
			return err
		}
	}
	p.record(verdicts)
	return nil
}

// follow finds what else goes with the tags that go.
func (p *planner) follow(ctx context.Context, name oci.Name, verdicts []*Verdict) error {
	g, err := readGraph(ctx, p.store, name)
	if err != nil {
		return err
	}
	held := settle(verdicts, g)
	gone := map[oci.Digest]bool{}
	for d, n := range g.Nodes {
		if held[d] {
			continue
		}
		gone[d] = true
		p.freed[d] = n.Size
		for _, b := range n.Needs {
			if g.Nodes[b] == nil {
				p.freed[b] = -1
			}
		}
	}
	p.gone[name] = gone
	return nil
}

// record takes the verdicts into the plan.
func (p *planner) record(verdicts []*Verdict) {
	for _, v := range verdicts {
		if v.Rule == 0 && !v.Delete {
			continue
		}
		if v.Delete {
			p.plan.Deleted++
		} else {
			p.plan.Kept++
		}
		if v.begins {
			p.plan.begins.Set(v.Repository, v.Digest, p.now)
		}
		if v.Delete || p.all {
			p.plan.Verdicts = append(p.plan.Verdicts, v)
		}
	}
}
