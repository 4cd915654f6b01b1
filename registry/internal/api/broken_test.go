package api

import (
	"context"
	"errors"
	"io"
	"iter"

	"slipway/registry/internal/storage"
)

// errShort makes objects of a brokenStore end early.
var errShort = errors.New("input/output error")

func (d *brokenStore) fail() error {
	if errors.Is(d.err, errShort) {
		return nil
	}
	return d.err
}

func (d *brokenStore) Stat(ctx context.Context, key string) (storage.Info, error) {
	if err := d.fail(); err != nil {
		return storage.Info{}, err
	}
	return d.both.Stat(ctx, key)
}

func (d *brokenStore) Open(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	if err := d.fail(); err != nil {
		return nil, err
	}
	o, err := d.both.Open(ctx, key, offset, length)
	if err == nil && d.err != nil {
		o.ReadCloser = &shortObject{o.ReadCloser, 0}
	}
	return o, err
}

func (d *brokenStore) List(ctx context.Context, prefix string, o storage.ListOptions) iter.Seq2[storage.Info, error] {
	if err := d.fail(); err != nil {
		return func(yield func(storage.Info, error) bool) { yield(storage.Info{}, err) }
	}
	return d.both.List(ctx, prefix, o)
}

func (d *brokenStore) Apply(ctx context.Context, a *storage.Attempt, stages ...storage.Stage) error {
	if err := d.fail(); err != nil {
		return err
	}
	return d.both.Apply(ctx, a, stages...)
}

func (d *brokenStore) OpenUpload(ctx context.Context, key string, o storage.UploadOptions) (storage.Upload, error) {
	if err := d.fail(); err != nil {
		return nil, err
	}
	u, err := d.both.OpenUpload(ctx, key, o)
	if err == nil && d.suspend != nil {
		u = &brokenUpload{u, d.suspend}
	}
	return u, err
}

// brokenUpload can't be left to the next request.
type brokenUpload struct {
	storage.Upload
	err error
}

func (u *brokenUpload) Suspend(context.Context, int64, []byte) error { return u.err }

// shortObject fails after some bytes.
type shortObject struct {
	io.ReadCloser
	read int
}

func (o *shortObject) Read(p []byte) (int, error) {
	if o.read > 100_000 {
		return 0, errShort
	}
	n, err := o.ReadCloser.Read(p[:min(len(p), 10_000)])
	o.read += n
	return n, err
}
