package notify

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// readHeaders reads a file with a header in each line. Without a path there are none.
func readHeaders(path string) (http.Header, error) {
	if path == "" {
		return nil, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the headers file cannot be read: %w", err)
	}
	header, err := parseHeaders(string(content))
	if err != nil {
		return nil, fmt.Errorf("the headers file %s: %w", path, err)
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
