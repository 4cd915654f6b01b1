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

// maxHeadersFile bounds what is read of a headers file.
const maxHeadersFile = 64 << 10

// headersFile is a file with headers, a line each. It is read for each delivery, so a
// change counts at once. One goroutine at a time uses it.
type headersFile struct {
	path   string
	log    *zap.Logger
	warned bool
}

// get is what the file says now. Without a path that is nothing.
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
// with # say nothing. The error does not repeat what the file holds.
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
