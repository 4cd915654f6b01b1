package post

import (
	"encoding/json"
	"slices"
	"strconv"
)

// Attachment is a file that is sent with a message. Its content is in the store until it is sent.
type Attachment struct {
	ID      int64  `json:"id"` // of the content
	Name    string `json:"name"`
	Type    string `json:"type"` // media type
	Size    int64  `json:"size"` // bytes
	Width   int    `json:"w,omitempty"`
	Height  int    `json:"h,omitempty"`
	Sum     []byte `json:"-"` // SHA-256 of the content
	Content []byte `json:"-"` // nil once it is stored
}

// EncodeAttachments encodes attachments for Content.Attachments; "" for none.
func EncodeAttachments(all []Attachment) string {
	if len(all) == 0 {
		return ""
	}
	text, _ := json.Marshal(all) // strings and numbers always encode
	return string(text)
}

// DecodeAttachments returns what EncodeAttachments has encoded.
func DecodeAttachments(text string) (all []Attachment) {
	if text != "" {
		_ = json.Unmarshal([]byte(text), &all) // the relay wrote it
	}
	return all
}

// JoinAttachments concatenates two encoded lists.
func JoinAttachments(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return EncodeAttachments(append(DecodeAttachments(a), DecodeAttachments(b)...))
}

// Attached returns the entries that send the attachments of e, in their order.
func (e *Entry) Attached(queuedAt int64) (all []Entry) {
	if e.Kind == KindMedia {
		return nil
	}
	for i, a := range DecodeAttachments(e.Attachments) {
		f := e.Follow(KindMedia, queuedAt)
		f.Txn, f.Content = e.Txn+"a"+strconv.Itoa(i+1), Content{Title: a.Name, Attachments: EncodeAttachments([]Attachment{a})}
		all = append(all, f)
	}
	return all
}

// withoutSent returns the attachments that none of the entries sends.
func withoutSent(attachments string, entries []Entry) string {
	sent := map[int64]bool{}
	for _, e := range entries {
		if e.Kind == KindMedia {
			for _, a := range DecodeAttachments(e.Attachments) {
				sent[a.ID] = true
			}
		}
	}
	return EncodeAttachments(slices.DeleteFunc(DecodeAttachments(attachments), func(a Attachment) bool { return sent[a.ID] }))
}
