package signature

import (
	"context"
	"encoding/json"
	"slices"

	"golang.org/x/sync/semaphore"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
)

// attachmentTypes are the types of layers that describe an image: signatures, attestations, SBOMs, scan reports.
var attachmentTypes = []string{
	typeSimple, typeStatement, typeEnvelope, typeBundle,
	"application/spdx+json", "text/spdx+json", "application/vnd.cyclonedx+json", "application/vnd.syft+json", "application/sarif+json",
	"application/vnd.aquasec.trivy.report+json", "application/vnd.trivy.report+json", "application/jose+json",
}

// maxDocuments bounds the bytes of the layers of an attachment.
const maxDocuments = 32 << 20

// documents lets one attachment at a time of this process into memory.
var documents = semaphore.NewWeighted(1)

// attachment returns [Exempt] if a manifest describes an image and can't be run as one, so that anyone may push and pull it unsigned.
// Names, tags, types and subjects alone prove nothing, since the client that pushes chooses them, and runtimes ignore some of them. Each
// layer must be JSON, which has no control characters as programs, archives with programs in them, and compressed files do. The layers that
// the configuration names by diff_ids must be these layers: a runtime that has other ones already would use them with the command of the
// configuration.
func (r *rule) attachment(ctx context.Context, repo registry.Repository, m *registry.Manifest) (Result, error) {
	key := judged{image: m.Digest}
	if res, ok := r.verdicts.Get(key); ok {
		return res, nil
	}
	parsed, err := oci.ReadManifest(m.Bytes)
	if err != nil || parsed.Config == nil || len(parsed.Manifests) > 0 || len(parsed.Layers) == 0 || len(parsed.Layers) > maxSignatures {
		return Result{}, nil //nolint:nilerr // an image, an index, or unreadable
	}
	layers := []oci.Digest{}
	for _, l := range parsed.Layers {
		if !slices.Contains(attachmentTypes, l.MediaType) {
			return Result{}, nil
		}
		layers = append(layers, l.Digest)
	}
	if err := documents.Acquire(ctx, 1); err != nil {
		return Result{}, err
	}
	defer documents.Release(1)
	config, err := repo.ReadBlob(ctx, parsed.Config.Digest, maxContent)
	is, left := err == nil && runsNothing(config, layers), int64(maxDocuments)
	for i := 0; i < len(layers) && is && err == nil; i++ {
		var document []byte
		document, err = repo.ReadBlob(ctx, layers[i], left)
		is, left = json.Valid(document), left-int64(len(document))
	}
	if registry.IsLost(err) {
		return Result{}, nil
	}
	if err != nil {
		return Result{}, err
	}
	res := Result{}
	if is {
		res.Verdict = Exempt
	}
	r.verdicts.Put(key, res, 1)
	return res, nil
}

// runsNothing reports whether the configuration of an image, or of an artifact, has no layers but the given ones.
func runsNothing(config []byte, layers []oci.Digest) bool {
	var c struct {
		RootFS struct {
			DiffIDs []oci.Digest `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if json.Unmarshal(config, &c) != nil {
		return false
	}
	return !slices.ContainsFunc(c.RootFS.DiffIDs, func(d oci.Digest) bool { return !slices.Contains(layers, d) })
}
