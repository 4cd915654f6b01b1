package ocilayout

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"slipway/registry/internal/oci"
)

// source is a layout being read. Its files are asked for by the names that this
// package makes, so nothing outside is ever opened.
type source interface {
	open(name string) (io.ReadCloser, error) // os.ErrNotExist
	io.Closer
}

// open opens a directory or a tar file.
func open(path string) (source, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		root, err := os.OpenRoot(path)
		return rooted{root}, err
	}
	return openTar(path)
}

// rooted is a directory, out of which no symbolic link leads.
type rooted struct{ root *os.Root }

func (r rooted) open(name string) (io.ReadCloser, error) { return r.root.Open(name) }
func (r rooted) Close() error                            { return r.root.Close() }

// tarred is a tar file and the offsets of its members.
type tarred struct {
	file    *os.File
	members map[string]*io.SectionReader
}

func openTar(file string) (source, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	t := &tarred{file: f, members: map[string]*io.SectionReader{}}
	if err := t.scan(); err != nil {
		f.Close()
		if errors.Is(err, io.ErrUnexpectedEOF) && len(t.members) > 0 {
			return nil, fmt.Errorf("%s: the archive is truncated: %w", file, err)
		}
		return nil, fmt.Errorf("%s: %w: %w (a compressed one has to be unpacked first)", file, ErrNotLayout, err)
	}
	return t, nil
}

// scan notes where each regular file begins.
func (t *tarred) scan() error {
	r := tar.NewReader(t.file) // seeks over what it need not read
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		at, err := t.file.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		t.members[path.Clean(h.Name)] = io.NewSectionReader(t.file, at, h.Size)
	}
}

func (t *tarred) open(name string) (io.ReadCloser, error) {
	m, ok := t.members[name]
	if !ok {
		return nil, fmt.Errorf("%s: %w", name, os.ErrNotExist)
	}
	return io.NopCloser(io.NewSectionReader(m, 0, m.Size())), nil
}

func (t *tarred) Close() error { return t.file.Close() }

// read reads a small file of a layout.
func read(s source, name string) ([]byte, error) {
	f, err := s.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err == nil && len(content) > maxManifest {
		err = fmt.Errorf("%s is larger than any manifest", name)
	}
	return content, err
}

// readManifest reads a manifest of a layout and holds it against its digest.
func readManifest(s source, d oci.Digest) ([]byte, error) {
	if _, err := oci.ParseDigest(string(d)); err != nil {
		return nil, err
	}
	content, err := read(s, blobFile(d))
	if err == nil && d.Algorithm().FromBytes(content) != d {
		err = fmt.Errorf("%s: %w", d, errDamaged)
	}
	return content, err
}
