package ocilayout

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"

	"slipway/registry/internal/oci"
)

// reader is a layout as a source. It opens only files whose names this package makes, and none
// outside the layout.
type reader struct {
	open        func(name string) (io.ReadCloser, error) // fs.ErrNotExist
	maxManifest int64
	io.Closer
}

// open opens a directory or a tar file, with manifests of at most maxManifest bytes.
func open(path string, maxManifest int64) (*reader, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return openTar(path, maxManifest)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &reader{func(name string) (io.ReadCloser, error) { return openRegular(root, name) }, maxManifest, root}, nil
}

// openRegular opens a regular file. It refuses anything else without blocking, such as a FIFO.
func openRegular(root *os.Root, name string) (io.ReadCloser, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func openTar(file string, maxManifest int64) (*reader, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	members, err := scan(f)
	if err != nil {
		f.Close()
		if errors.Is(err, io.ErrUnexpectedEOF) && len(members) > 0 {
			return nil, fmt.Errorf("%s: the archive is truncated: %w", file, err)
		}
		return nil, fmt.Errorf("%s: %w: %w (a compressed one has to be unpacked first)", file, ErrNotLayout, err)
	}
	return &reader{func(name string) (io.ReadCloser, error) {
		m, ok := members[name]
		if !ok {
			return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
		}
		return io.NopCloser(io.NewSectionReader(m, 0, m.Size())), nil
	}, maxManifest, f}, nil
}

// scan returns the regular files of a tar file.
func scan(f *os.File) (map[string]*io.SectionReader, error) {
	members := map[string]*io.SectionReader{}
	for r := tar.NewReader(f); ; { // seeks over what it need not read
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return members, nil
		}
		if err != nil {
			return members, err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		at, err := f.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil, err
		}
		members[path.Clean(h.Name)] = io.NewSectionReader(f, at, h.Size)
	}
}

// entries returns those of the index, without the wrappers that an export added.
func (r *reader) entries() ([]oci.Descriptor, error) {
	if _, err := r.read(versionFile, maxIndex); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotLayout, err)
	}
	content, err := r.read(indexFile, maxIndex)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotLayout, err)
	}
	var x index
	if err := json.Unmarshal(content, &x); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNotLayout, indexFile, err)
	}
	return slices.DeleteFunc(x.Manifests, func(d oci.Descriptor) bool { return d.Annotations[wraps] != "" }), nil
}

// read reads a file of at most limit bytes.
func (r *reader) read(name string, limit int64) ([]byte, error) {
	f, err := r.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(content)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", name, limit)
	}
	return content, err
}

// Manifest implements [imagecopy.Source].
func (r *reader) Manifest(ctx context.Context, d oci.Digest) ([]byte, error) {
	if _, err := oci.ParseDigest(string(d)); err != nil {
		return nil, err
	}
	content, err := r.read(blobFile(d), r.maxManifest)
	if err == nil && d.Algorithm().FromBytes(content) != d {
		err = fmt.Errorf("%s: %w", d, errDamaged)
	}
	return content, errors.Join(err, ctx.Err())
}

// Blob implements [imagecopy.Source].
func (r *reader) Blob(_ context.Context, d oci.Digest) (io.ReadCloser, int64, error) {
	f, err := r.open(blobFile(d))
	return f, -1, err
}

// Referrers implements [imagecopy.Source]. There are none: they have entries of their own.
func (r *reader) Referrers(context.Context, oci.Digest) ([]oci.Descriptor, error) { return nil, nil }
