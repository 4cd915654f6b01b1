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
func (c *check) attachment(ctx context.Context, m *registry.Manifest) (res Result, err error) {
	key := judged{image: m.Digest}
	if res, ok := c.verdicts.Get(key); ok {
		return res, nil
	}
	parsed, err := oci.ReadManifest(m.Bytes)
	if err != nil || parsed.Config == nil || len(parsed.Layers) == 0 || len(parsed.Layers) > maxLayers ||
		slices.ContainsFunc(parsed.Layers, func(l oci.Descriptor) bool { return !slices.Contains(attachmentTypes, l.MediaType) }) {
		return res, nil //nolint:nilerr // an image, an index, or unreadable
	}
	if err := documents.Acquire(ctx, 1); err != nil {
		return res, err
	}
	defer documents.Release(1)
	var config struct {
		RootFS struct {
			DiffIDs []oci.Digest `json:"diff_ids"`
		} `json:"rootfs"`
	}
	content, err := c.repo.ReadBlob(ctx, parsed.Config.Digest, maxContent)
	is, left, layers := json.Unmarshal(content, &config) == nil, int64(maxDocuments), map[oci.Digest]bool{}
	for i := 0; i < len(parsed.Layers) && is && err == nil; i++ {
		layers[parsed.Layers[i].Digest] = true
		content, err = c.repo.ReadBlob(ctx, parsed.Layers[i].Digest, left)
		is, left = json.Valid(content), left-int64(len(content))
	}
	if registry.IsLost(err) {
		return res, nil
	}
	if err != nil {
		return res, err
	}
	if is && !slices.ContainsFunc(config.RootFS.DiffIDs, func(d oci.Digest) bool { return !layers[d] }) {
		res.Verdict = Exempt
	}
	c.verdicts.Put(key, res, 1)
	return res, nil
}
