package s3

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
)

// Compose implements object.Bucket: a multipart upload of parts that the server copies.
func (b *Bucket) Compose(ctx context.Context, key string, sources []object.Source, o object.PutOptions) (_ string, err error) {
	in := &s3.CreateMultipartUploadInput{
		Bucket: &b.c.Bucket, Key: &key, ContentType: &octets, Metadata: metadata(o), StorageClass: b.class(), ACL: b.acl(),
	}
	in.ServerSideEncryption, in.SSEKMSKeyId = b.encryption()
	begun, err := b.api.CreateMultipartUpload(ctx, in)
	if err != nil {
		return "", object.Unsent(b.failed(ctx, err))
	}
	defer func() {
		if err != nil {
			// What a lost completion has made is not harmed: the upload is gone then.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), openTime)
			defer cancel()
			_ = b.abort(ctx, key, begun.UploadId) // otherwise a collection does it
		}
	}()
	parts, err := b.copyParts(ctx, key, begun.UploadId, sources)
	if err != nil {
		return "", object.Unsent(err)
	}
	complete := &s3.CompleteMultipartUploadInput{Bucket: &b.c.Bucket, Key: &key, UploadId: begun.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts}}
	complete.IfMatch, complete.IfNoneMatch = condition(o.If)
	out, err := b.api.CompleteMultipartUpload(ctx, complete)
	if err != nil {
		return "", b.failed(ctx, err)
	}
	return version(out.ETag), nil
}

func (b *Bucket) copyParts(ctx context.Context, key string, id *string, sources []object.Source) ([]types.CompletedPart, error) {
	parts := make([]types.CompletedPart, len(sources))
	err := storage.Each(len(sources), storage.AtOnce, func(i int) error {
		number := aws.Int32(int32(i + 1)) //nolint:gosec // no more than 10,000
		out, err := b.api.UploadPartCopy(ctx, &s3.UploadPartCopyInput{Bucket: &b.c.Bucket, Key: &key, UploadId: id, PartNumber: number, CopySource: b.source(sources[i].Key)})
		if err != nil {
			return b.failed(ctx, err)
		}
		parts[i] = types.CompletedPart{PartNumber: number, ETag: out.CopyPartResult.ETag}
		return nil
	})
	return parts, err
}

func (b *Bucket) abort(ctx context.Context, key string, id *string) error {
	_, err := b.api.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &b.c.Bucket, Key: &key, UploadId: id})
	if _, ok := errors.AsType[*types.NoSuchUpload](err); ok {
		return nil
	}
	return b.failed(ctx, err)
}

// AbortOld implements object.Bucket. MinIO lists nothing for a prefix that is no whole key, so all are
// asked for.
func (b *Bucket) AbortOld(ctx context.Context, prefix string, before time.Time) error {
	var errs []error
	for in := (&s3.ListMultipartUploadsInput{Bucket: &b.c.Bucket}); ; {
		out, err := b.api.ListMultipartUploads(ctx, in)
		if err != nil {
			return errors.Join(append(errs, b.failed(ctx, err))...)
		}
		for _, u := range out.Uploads {
			if key := aws.ToString(u.Key); strings.HasPrefix(key, prefix) && aws.ToTime(u.Initiated).Before(before) {
				if err := b.abort(ctx, key, u.UploadId); err != nil && !errors.Is(err, storage.ErrNotExist) {
					errs = append(errs, err)
				}
			}
		}
		next, id := aws.ToString(out.NextKeyMarker), aws.ToString(out.NextUploadIdMarker)
		if !aws.ToBool(out.IsTruncated) || next == "" || next == aws.ToString(in.KeyMarker) && id == aws.ToString(in.UploadIdMarker) {
			return errors.Join(errs...)
		}
		in.KeyMarker, in.UploadIdMarker = &next, &id
	}
}
