package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
)

// HookBody returns the JSON of a webhook: the body, or the field payload of a form of any kind, which is how Slack's and the
// forges' older senders post.
func HookBody(r *Request) ([]byte, error) {
	if request.IsJSON(r.Body) {
		return payloadOf(r.Body), nil
	}
	if field, found := strings.CutPrefix(string(r.Body), "payload="); found { // its end may be unescaped
		if payload, err := url.QueryUnescape(field); err == nil && json.Valid([]byte(payload)) {
			return []byte(payload), nil
		}
	}
	if !bytes.Contains(r.Body, []byte("payload")) {
		return r.Body, nil
	}
	contentType, body := r.Header.Get("Content-Type"), r.Body
	err := request.Each(contentType, r.Body, func(name string, v request.Value) error {
		if _, isFile := v.File(); name == "payload" && !isFile {
			body = bytes.Clone(v.Raw())
		}
		return nil
	})
	if err != nil && bytes.HasPrefix(r.Body, []byte("payload=")) {
		return nil, refusal.Invalid("payload", "The field payload is not a valid form value.")
	}
	return body, nil
}

// payloadOf returns the JSON in the only field of an object if that is payload, an object or its text; else the object itself.
func payloadOf(object []byte) []byte {
	var fields map[string]json.RawMessage
	if !bytes.Contains(object, []byte(`"payload"`)) || request.Unmarshal(object, &fields) != nil || len(fields) != 1 || !request.IsJSON(inText(fields["payload"])) {
		return object
	}
	return inText(fields["payload"])
}

// inText returns what a JSON string contains, and any other value as it is.
func inText(value json.RawMessage) []byte {
	var text string
	if json.Unmarshal(value, &text) != nil {
		return value
	}
	return []byte(text)
}

// DecodeHook reads the JSON object of a webhook into v. A field of another type than v's is left out: senders change
// what a message doesn't need.
func DecodeHook(r *Request, v any) error {
	body, err := HookBody(r)
	if err != nil {
		return err
	}
	var mismatch *json.UnmarshalTypeError
	switch err := DecodeObject(body, v); {
	case refusal.KindOf(err) == refusal.KindTooLarge:
		return err
	case errors.As(err, &mismatch):
		return refusal.Invalid("", "The body is not a JSON object.")
	case err != nil:
		return &refusal.Error{Kind: refusal.KindInvalid, Message: "The body is not the JSON that this address takes: " + err.Error() + "."}
	}
	return nil
}

// DecodeObject reads a JSON object into v. A field of another type than v's is left out.
func DecodeObject(data []byte, v any) error {
	var mismatch *json.UnmarshalTypeError
	if err := request.Unmarshal(data, v); err != nil && (!errors.As(err, &mismatch) || mismatch.Field == "") {
		return err
	}
	return nil
}

// PostAt returns the routes of a protocol that is posted to each of the paths.
func PostAt(paths ...string) (routes []Route) {
	for _, p := range paths {
		routes = append(routes, Route{Method: http.MethodPost, Path: p})
	}
	return routes
}
