package api

import (
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// maxDepth is how deep a JSON body may nest.
const maxDepth = 32

var (
	errNotObject = errors.New("the body is not a JSON object")
	errDepth     = errors.New("the body nests too deep")
)

// eachField calls f for each field of the JSON object in body, in its order and
// as often as it is there: encoding/json would take the last of two tokens and
// one that is spelled "Token". The value is valid JSON. json.Decoder.Token takes four times as long for a message.
func eachField(body []byte, f func(key string, value []byte) error) error {
	if err := checkDepth(body); err != nil {
		return err
	}
	if !json.Valid(body) {
		return errors.New("the body is not valid JSON")
	}
	i := skipSpace(body, 0)
	if body[i] != '{' {
		return errNotObject
	}
	for i = skipSpace(body, i+1); body[i] != '}'; {
		end := skipString(body, i)
		key, err := unquote(body[i:end])
		if err != nil {
			return err
		}
		from := skipSpace(body, skipSpace(body, end)+1) // behind the colon
		i = skipValue(body, from)
		if err := f(key, body[from:i]); err != nil {
			return err
		}
		if i = skipSpace(body, i); body[i] == ',' {
			i = skipSpace(body, i+1)
		}
	}
	return nil
}

// checkDepth looks at the brackets outside of strings, before anything follows
// them downwards.
func checkDepth(body []byte) error {
	depth := 0
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '"':
			i = skipString(body, i) - 1
		case '{', '[':
			if depth++; depth > maxDepth {
				return errDepth
			}
		case '}', ']':
			depth--
		}
	}
	return nil
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the index behind the string that begins at i.
func skipString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// skipValue returns the index behind the valid value that begins at i.
func skipValue(b []byte, i int) int {
	depth := 0
	for ; i < len(b); i++ {
		switch b[i] {
		case '"':
			i = skipString(b, i) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return i
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
		}
	}
	return len(b)
}

// unquote returns the text of a JSON string. Most have no escapes.
func unquote(quoted []byte) (string, error) {
	inner := quoted[1 : len(quoted)-1]
	for _, c := range inner {
		if c == '\\' {
			var s string
			err := json.Unmarshal(quoted, &s)
			return s, err
		}
	}
	if !utf8.Valid(inner) {
		var s string
		err := json.Unmarshal(quoted, &s)
		return s, err
	}
	return string(inner), nil
}
