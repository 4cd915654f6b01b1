package retention

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"slipway/registry/internal/lastpull"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/storage"
	"slipway/shared/plural"
)

// Result describes the deletions of an application.
type Result struct {
	Deleted int `json:"deleted"`
	Changed int `json:"changed"` // tags that were pushed again, or went, since they were looked at
	Failed  int `json:"failed"`
}

// Apply deletes the tags that the plan deletes, except those that have changed
// since. What fails is logged and counted, and the rest is done.
func (p *Plan) Apply(ctx context.Context, o Options, log *zap.Logger) (Result, error) {
	var result Result
	switch err := p.begin(ctx, o.Pulls); {
	case errors.Is(err, storage.ErrNoSpace): // the deletions below may help
		log.Warn("retention cannot record when the time of tags begins", zap.Error(err))
	case err != nil:
		return result, err
	}
	for _, v := range p.Verdicts {
		if err := ctx.Err(); err != nil {
			return result, err
		}
		if v.Delete {
			result.delete(ctx, v, o, log)
		}
	}
	if result.Failed > 0 {
		return result, fmt.Errorf("%s could not be deleted", plural.Of(result.Failed, "tag"))
	}
	return result, nil
}

func (r *Result) delete(ctx context.Context, v *Verdict, o Options, log *zap.Logger) {
	log = log.With(zap.String("repository", string(v.Repository)), zap.String("tag", string(v.Tag)), zap.String("digest", string(v.Digest)))
	deleted, err := v.apply(ctx, o)
	switch {
	case err != nil:
		r.Failed++
		log.Error("retention cannot delete a tag", zap.Error(err))
	case deleted:
		r.Deleted++
		log.Info("retention deleted a tag", zap.String("rule", RuleKey(v.Rule)), zap.String("why", v.Why))
		if o.Deleted != nil {
			o.Deleted(v)
		}
	default:
		r.Changed++
		log.Info("retention keeps a tag that has changed meanwhile")
	}
}

// apply deletes the tag if it is as it was judged. The time is compared too: where a
// version is a hash of the content, a push of the same image leaves it as it was.
func (v *Verdict) apply(ctx context.Context, o Options) (deleted bool, err error) {
	now, ok := tree.ReadLink(ctx, o.Store, layout.TagCurrent(v.Repository, v.Tag), v.Digest)
	switch {
	case ok && now.Err != nil:
		return false, now.Err
	case !ok || now.Target != v.Digest || !now.Modified.Equal(v.modified):
		return false, nil
	default:
		return o.Registry.Repository(v.Repository).By("retention").DeleteTagIf(ctx, v.Tag, v.Digest, now.Version)
	}
}

// begin records a pull for the tags of which none is known, so that their time
// begins.
func (p *Plan) begin(ctx context.Context, file *lastpull.File) error {
	if p.begins.Empty() {
		return nil
	}
	return file.Add(ctx, p.begins)
}
