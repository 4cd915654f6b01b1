package notify

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"

	"go.uber.org/zap"
	"golang.org/x/net/http/httpguts"
)

// maxHeadersFile is the largest headers file, in bytes.
const maxHeadersFile = 64 << 10

// headersFile is a file with a header in each line, read again for each delivery.
// It is not safe for concurrent use.
type headersFile struct {
	path   string
	log    *zap.Logger
	warned bool
}

// get reads the headers. Without a path there are none.
func (f *headersFile) get() (http.Header, error) {
	if f.path == "" {
		return nil, nil
	}
	info, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the headers file %s does not exist (yet)", f.path)
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxHeadersFile) {
		return nil, fmt.Errorf("the headers file %s is not a file of at most %d bytes", f.path, maxHeadersFile)
	}
	var content []byte
	if err == nil {
		content, err = os.ReadFile(f.path)
	}
	if err != nil {
		return nil, fmt.Errorf("the headers file cannot be read: %w", err)
	}
	header, err := parseHeaders(string(content))
	if err != nil {
		return nil, fmt.Errorf("the headers file %s: %w", f.path, err)
	}
	if info.Mode()&0o004 != 0 && !f.warned {
		f.warned = true
		f.log.Warn("everybody on this machine can read the headers file; chmod 600 it", zap.String("file", f.path))
	}
	return header, nil
}

// parseHeaders reads lines of "Name: value". Empty lines and those that begin
// with # are ignored. The error does not repeat the content, which is secret.
func parseHeaders(content string) (http.Header, error) {
	header := http.Header{}
	number := 0
	for line := range strings.Lines(content) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("line %d is not a header such as `Authorization: Bearer …`", number)
		}
		header.Add(name, value)
	}
	if len(header) == 0 {
		return nil, errors.New("it holds no header")
	}
	return header, nil
}
