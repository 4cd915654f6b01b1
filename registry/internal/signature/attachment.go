package signature

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"

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

// isAttachment reports whether a manifest describes an image and can't be run as one, so that anyone may push and pull it unsigned.
// Names, tags, types and subjects alone prove nothing, since the client that pushes chooses them, and runtimes ignore some of them. Each
// layer must be a JSON document by its content, which is no archive with a program. The layers that the configuration names by
// diff_ids must be these layers: a runtime that has other ones already would use them with the command of the configuration.
func (r *rule) isAttachment(ctx context.Context, repo registry.Repository, m *registry.Manifest) (bool, error) {
	if is, ok := r.attachments.Get(m.Digest); ok {
		return is, nil
	}
	parsed, err := oci.ReadManifest(m.Bytes)
	if err != nil || parsed.Config == nil || len(parsed.Manifests) > 0 || len(parsed.Layers) == 0 || len(parsed.Layers) > maxSignatures {
		return false, nil //nolint:nilerr // an image, an index, or unreadable
	}
	layers, left := []oci.Digest{}, int64(maxDocuments)
	for _, l := range parsed.Layers {
		if !slices.Contains(attachmentTypes, l.MediaType) {
			return false, nil
		}
		layers = append(layers, l.Digest)
	}
	config, err := readBlob(ctx, repo, parsed.Config.Digest)
	is := err == nil && runsNothing(config, layers)
	for i := 0; is && err == nil && i < len(layers); i++ {
		is, err = isDocument(ctx, repo, layers[i], &left)
	}
	if missing(err) {
		return false, nil
	}
	if err == nil {
		r.attachments.Put(m.Digest, is, 1)
	}
	return is, err
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

func isControl(r rune) bool { return r < ' ' && r != '\t' && r != '\n' && r != '\r' }

// isDocument reports whether the blob begins like a JSON object and has no control characters, which JSON forbids, and programs, archives
// with programs in them, and compressed files have. An archive without NUL bytes can be made, and its reader fills holes with them, but no
// program consists of text and NULs.
func isDocument(ctx context.Context, repo registry.Repository, d oci.Digest, left *int64) (bool, error) {
	b, err := repo.OpenBlob(ctx, d)
	if err != nil {
		return false, err
	}
	defer b.Close() //nolint:errcheck // it was only read
	if *left -= b.Size(); *left < 0 {
		return false, nil
	}
	buf, first := make([]byte, 32<<10), true
	for {
		n, err := b.Read(buf)
		if text := bytes.TrimLeft(buf[:n], " \t\r\n"); first && len(text) > 0 {
			if first = false; text[0] != '{' {
				return false, nil
			}
		}
		if bytes.ContainsFunc(buf[:n], isControl) {
			return false, nil
		}
		if errors.Is(err, io.EOF) {
			return !first, nil
		} else if err != nil {
			return false, err
		}
	}
}
