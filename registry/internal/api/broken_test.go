package api

import (
	"context"
	"errors"
	"io"
	"iter"

	"slipway/registry/internal/driver"
)

// errShort makes files of a brokenDriver end early.
var errShort = errors.New("input/output error")

func (d *brokenDriver) fail() error {
	if errors.Is(d.err, errShort) {
		return nil
	}
	return d.err
}

func (d *brokenDriver) Stat(ctx context.Context, path string) (driver.Info, error) {
	if err := d.fail(); err != nil {
		return driver.Info{}, err
	}
	return d.Driver.Stat(ctx, path)
}

func (d *brokenDriver) Find(ctx context.Context, first, second string) (driver.Info, string, error) {
	if err := d.fail(); err != nil {
		return driver.Info{}, "", err
	}
	return d.Driver.Find(ctx, first, second)
}

func (d *brokenDriver) ReadFile(ctx context.Context, path string, limit int64) ([]byte, error) {
	if err := d.fail(); err != nil {
		return nil, err
	}
	return d.Driver.ReadFile(ctx, path, limit)
}

func (d *brokenDriver) Open(ctx context.Context, path string) (driver.File, error) {
	if err := d.fail(); err != nil {
		return nil, err
	}
	f, err := d.Driver.Open(ctx, path)
	if err == nil && d.err != nil {
		f = shortFile{f}
	}
	return f, err
}

func (d *brokenDriver) List(ctx context.Context, dir, after string) iter.Seq2[driver.Entry, error] {
	if err := d.fail(); err != nil {
		return func(yield func(driver.Entry, error) bool) { yield(driver.Entry{}, err) }
	}
	return d.Driver.List(ctx, dir, after)
}

func (d *brokenDriver) Version(context.Context, string) (string, bool) { return "", false }

func (d *brokenDriver) Commit(ctx context.Context, stages ...driver.Stage) error {
	if err := d.fail(); err != nil {
		return err
	}
	return d.Driver.Commit(ctx, stages...)
}

func (d *brokenDriver) WriteScratch(ctx context.Context, path string, content []byte) error {
	if err := d.fail(); err != nil {
		return err
	}
	return d.Driver.WriteScratch(ctx, path, content)
}

func (d *brokenDriver) CreateUpload(ctx context.Context, path string) (driver.Upload, error) {
	if err := d.fail(); err != nil {
		return nil, err
	}
	return d.Driver.CreateUpload(ctx, path)
}

// shortFile fails after some bytes.
type shortFile struct{ driver.File }

func (f shortFile) Read(p []byte) (int, error) {
	at, err := f.Seek(0, io.SeekCurrent)
	if err == nil && at > 100_000 {
		return 0, errShort
	}
	return f.File.Read(p[:min(len(p), 10_000)])
}
