package retention

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"go.uber.org/zap"

	"slipway/registry/internal/pulls"
	"slipway/registry/internal/registry"
)

// Result is what an application did.
type Result struct {
	Deleted int `json:"deleted"`
	Changed int `json:"changed"` // tags that were pushed anew, or went, since they were looked at
	Failed  int `json:"failed"`
}

// Apply deletes the tags that the plan says go, but for those that have changed
// since. What fails is logged and counted, and the rest is done; the error says
// also which tags cannot be put back that dead processes had in their hands.
func (p *Plan) Apply(ctx context.Context, o Options, log *zap.Logger) (Result, error) {
	var result Result
	held := o.Registry.RecoverTags(ctx)
	if err := p.begin(ctx, o.Pulls); err != nil {
		return result, errors.Join(held, err)
	}
	for verdicts := range p.byRepository() {
		if err := result.apply(ctx, verdicts, o.Registry, log); err != nil {
			return result, errors.Join(held, err)
		}
	}
	if result.Failed > 0 {
		return result, errors.Join(held, fmt.Errorf("%d tags could not be deleted", result.Failed))
	}
	return result, held
}

// byRepository yields the verdicts of one repository at a time.
func (p *Plan) byRepository() iter.Seq[[]*Verdict] {
	return func(yield func([]*Verdict) bool) {
		for rest := p.Verdicts; len(rest) > 0; {
			name, n := rest[0].Repository, 1
			for n < len(rest) && rest[n].Repository == name {
				n++
			}
			if !yield(rest[:n]) {
				return
			}
			rest = rest[n:]
		}
	}
}

// apply deletes the tags of one repository that go.
func (r *Result) apply(ctx context.Context, verdicts []*Verdict, rules *registry.Registry, log *zap.Logger) error {
	for _, v := range verdicts {
		if ctx.Err() != nil {
			break
		}
		if v.Delete {
			r.delete(ctx, v, rules, log)
		}
	}
	return errors.Join(ctx.Err(), rules.Repository(verdicts[0].Repository).FinishExpiry(ctx))
}

func (r *Result) delete(ctx context.Context, v *Verdict, rules *registry.Registry, log *zap.Logger) {
	log = log.With(zap.String("repository", string(v.Repository)), zap.String("tag", string(v.Tag)), zap.String("digest", string(v.Digest)))
	deleted, err := rules.Repository(v.Repository).ExpireTag(ctx, v.Tag, v.Digest, v.Pushed)
	switch {
	case err != nil:
		r.Failed++
		log.Error("retention cannot delete a tag", zap.Error(err))
	case deleted:
		r.Deleted++
		log.Info("retention deleted a tag", zap.Int("rule", v.Rule), zap.String("why", v.Why))
	default:
		r.Changed++
		log.Info("retention left a tag alone: it has changed meanwhile")
	}
}

// begin notes a pull for the tags of which none is known, so that their time
// begins.
func (p *Plan) begin(ctx context.Context, file *pulls.File) error {
	if p.begins.Empty() {
		return nil
	}
	return file.Add(ctx, p.begins)
}
