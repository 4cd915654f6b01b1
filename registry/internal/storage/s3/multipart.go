package s3

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/rest"
)

// Begin implements object.Multipart.
func (b *Bucket) Begin(ctx context.Context, key string, o object.PutOptions) (id string, err error) {
	resp, err := b.send(ctx, &request{method: http.MethodPost, key: key, query: url.Values{"uploads": {""}}, header: b.putHeader(o)})
	if err != nil {
		return "", err
	}
	var result struct {
		UploadID string `xml:"UploadId"`
	}
	content, err := rest.Answer(ctx, resp)
	if err == nil {
		err = parse(content, &result)
	}
	if err == nil && result.UploadID == "" {
		err = fmt.Errorf("%w: the store began a multipart upload without an id", storage.ErrUnavailable)
	}
	return result.UploadID, err
}

func partQuery(id string, number int) url.Values {
	return url.Values{"uploadId": {id}, "partNumber": {strconv.Itoa(number)}}
}

// PutPart implements object.Multipart.
func (b *Bucket) PutPart(ctx context.Context, key, id string, number int, body object.Body) (tag string, err error) {
	resp, err := b.send(ctx, &request{method: http.MethodPut, key: key, query: partQuery(id, number), body: body})
	if err != nil {
		return "", err
	}
	rest.Drop(resp)
	return version(resp.Header), nil
}

// result is the answer to a request that makes a part or an object.
type result struct {
	XMLName      xml.Name
	ETag         string
	LastModified string
	failure
}

// result sends the request and reads the answer.
func (b *Bucket) result(ctx context.Context, r *request) (x result, err error) {
	resp, err := b.send(ctx, r)
	if err != nil {
		return x, err
	}
	content, err := rest.Answer(ctx, resp)
	if err != nil {
		return x, err
	}
	return x, parse(content, &x)
}

// copyPart makes a part of an object, on the server's side.
func (b *Bucket) copyPart(ctx context.Context, key, id string, number int, source string) (tag string, err error) {
	r := &request{method: http.MethodPut, key: key, query: partQuery(id, number), header: http.Header{}}
	r.header.Set("X-Amz-Copy-Source", escape(b.c.Bucket+"/"+source))
	result, err := b.result(ctx, r)
	if err != nil {
		return "", err
	}
	if result.ETag == "" { // a 200 can carry an error
		return "", &object.Trouble{Err: fmt.Errorf("cannot copy %s: %s: %s", source, result.Code, result.Message), Effect: object.Doubtful}
	}
	return strings.Trim(result.ETag, `"`), nil
}

// Complete implements object.Multipart.
func (b *Bucket) Complete(ctx context.Context, key, id string, tags []string, o object.PutOptions) (string, error) {
	var text strings.Builder
	text.WriteString(`<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">`)
	for i, tag := range tags {
		fmt.Fprintf(&text, `<Part><PartNumber>%d</PartNumber><ETag>"%s"</ETag></Part>`, i+1, xmlText(tag))
	}
	text.WriteString("</CompleteMultipartUpload>")
	r := &request{method: http.MethodPost, key: key, query: url.Values{"uploadId": {id}}, header: http.Header{"Content-Type": {"application/xml"}}, body: bytesBody([]byte(text.String()))}
	condition(r.header, o.If)
	result, err := b.result(ctx, r)
	if err != nil {
		return "", err
	}
	if result.XMLName.Local == "Error" { // a 200 can carry an error
		return "", b.meaning(&result.failure, http.StatusInternalServerError, 0)
	}
	return strings.Trim(result.ETag, `"`), nil
}

// Abort implements object.Multipart.
func (b *Bucket) Abort(ctx context.Context, key, id string) error {
	resp, err := b.send(ctx, &request{method: http.MethodDelete, key: key, query: url.Values{"uploadId": {id}}})
	if err == nil {
		rest.Drop(resp)
	}
	return err
}

// Unfinished implements object.Multipart. MinIO lists nothing for a prefix that is no whole
// key, so all are asked for.
func (b *Bucket) Unfinished(ctx context.Context, prefix string, before time.Time) (found []object.UnfinishedObject, err error) {
	q := url.Values{"uploads": {""}}
	for {
		resp, err := b.send(ctx, &request{method: http.MethodGet, query: q})
		if err != nil {
			return nil, err
		}
		content, err := rest.Answer(ctx, resp)
		if err != nil {
			return nil, err
		}
		var l struct {
			IsTruncated                       bool
			NextKeyMarker, NextUploadIdMarker string //nolint:revive,staticcheck // the protocol's name
			Upload                            []struct {
				Key       string
				UploadID  string `xml:"UploadId"`
				Initiated time.Time
			}
		}
		if err := parse(content, &l); err != nil {
			return nil, err
		}
		for _, u := range l.Upload {
			if strings.HasPrefix(u.Key, prefix) && u.Initiated.Before(before) {
				found = append(found, object.UnfinishedObject{Key: u.Key, ID: u.UploadID, Begun: u.Initiated})
			}
		}
		if !l.IsTruncated || l.NextKeyMarker == "" || l.NextKeyMarker == q.Get("key-marker") && l.NextUploadIdMarker == q.Get("upload-id-marker") {
			return found, nil
		}
		q.Set("key-marker", l.NextKeyMarker)
		q.Set("upload-id-marker", l.NextUploadIdMarker)
	}
}

// copiesAtOnce is how many parts one Compose has copied at the same time.
const copiesAtOnce = 16

// Compose implements object.Bucket: a multipart upload of parts that the server copies.
func (b *Bucket) Compose(ctx context.Context, key string, sources []object.Source, o object.PutOptions) (version string, err error) {
	id, err := b.Begin(ctx, key, o)
	if err != nil {
		return "", unfinished(err)
	}
	defer func() {
		if err != nil {
			// What a lost Complete has made is not harmed: the upload is gone then.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), openTime)
			defer cancel()
			_ = b.Abort(ctx, key, id) // else the purge does it
		}
	}()
	tags, err := b.copyParts(ctx, key, id, sources)
	if err != nil {
		return "", unfinished(err)
	}
	return b.Complete(ctx, key, id, tags, o)
}

// unfinished is the error of a request before the one that has an effect.
func unfinished(err error) error {
	if t, ok := asTrouble(err); ok {
		return &object.Trouble{Err: t.Err, Effect: object.Refused, After: t.After}
	}
	return err
}

func (b *Bucket) copyParts(ctx context.Context, key, id string, sources []object.Source) ([]string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	tags := make([]string, len(sources))
	free := make(chan struct{}, copiesAtOnce)
	var all sync.WaitGroup
	for i, s := range sources {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			tag, err := b.copyPart(ctx, key, id, i+1, s.Key)
			if err != nil {
				cancel(err)
			}
			tags[i] = tag
		})
	}
	all.Wait()
	return tags, context.Cause(ctx)
}
