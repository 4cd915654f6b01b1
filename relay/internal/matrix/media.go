package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/crypto/attachment"
	"maunium.net/go/mautrix/event"
)

// Upload is a file to store on the homeserver.
type Upload struct {
	RoomID, Device string // of the event that will refer to it
	Name           string
	MimeType       string
	Content        io.Reader
	Size           int64 // of the content; homeservers take no empty files
	Encrypt        bool  // the homeserver then learns neither the content nor its name and type
}

// Media is a file on the homeserver.
type Media struct {
	URI  string // mxc://…
	Keys string // of an encrypted file: the fields of its EncryptedFile except the URI, as JSON without braces
}

// uploadPace is the least speed, in bytes a second, at which an upload is given time beyond that of any request.
const uploadPace = 64 << 10

// Upload uploads a file. Content in the clear is refused like an event that refers to it.
func (c *Client) Upload(ctx context.Context, up Upload) (Media, error) {
	if !up.Encrypt {
		if err := c.maySend(ctx, Outgoing{RoomID: up.RoomID, Device: up.Device, EventType: event.EventMessage.Type}); err != nil {
			return Media{}, err
		}
	}
	if limit := c.uploadLimit(ctx); limit > 0 && up.Size > limit {
		return Media{}, &SendError{Class: ClassDead, Code: "M_TOO_LARGE", Reason: fmt.Sprintf("it has %d bytes, and the homeserver takes files of at most %d", up.Size, limit)}
	}
	query := url.Values{}
	from := &upload{from: up.Content}
	var keys *attachment.EncryptedFile
	var encrypted io.ReadCloser
	if up.Encrypt {
		up.Name, up.MimeType = "", "application/octet-stream"
		keys = attachment.NewEncryptedFile()
		encrypted = keys.EncryptStream(up.Content)
		from.from = encrypted
	}
	if up.Name != "" {
		query.Set("filename", up.Name)
	}
	var out mautrix.RespMediaUpload
	err := c.ask(ctx, request{
		method: http.MethodPost, path: mautrix.MediaURLPath{"v3", "upload"}, query: query,
		file: from, size: up.Size, kind: up.MimeType, limit: maxSendAnswer,
	}, &out)
	read, failure := from.end()
	switch {
	case failure != nil:
		return Media{}, &SendError{Class: ClassRetry, Alone: true, Reason: "the file cannot be read", Err: failure}
	case err == nil && out.ContentURI.IsEmpty():
		err = notJSON(http.StatusOK, nil, errNoField)
	case err == nil && read != up.Size:
		err = &SendError{Class: ClassRetry, Alone: true, Reason: "the homeserver took only a part of the file"}
	}
	if err != nil {
		return Media{}, uploadRefused(err)
	}
	m := Media{URI: out.ContentURI.String()}
	if up.Encrypt {
		_ = encrypted.Close()      // it sets the hash
		b, _ := json.Marshal(keys) // cannot fail
		m.Keys = string(b[1 : len(b)-1])
	}
	return m, nil
}

// uploadRefused returns what the refusal of a file means.
func uploadRefused(err error) error {
	var failed *SendError
	switch {
	case hasClass(err, ClassBlock), errors.As(err, &failed) && failed.Alone && failed.Code == "M_UNRECOGNIZED":
		return reclassify(err, ClassDead, "the homeserver does not take files from the bot")
	case hasClass(err, ClassTooLarge):
		return reclassify(err, ClassDead, "the file is too large for the homeserver or a proxy in front of it")
	}
	return err
}

// upload reads a file for a request, whose transport may still read when the answer is there.
type upload struct {
	mu      sync.Mutex
	from    io.Reader
	read    int64
	failure error
	ended   bool
}

// Read implements [io.Reader].
func (u *upload) Read(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended {
		return 0, io.ErrClosedPipe
	}
	n, err := u.from.Read(p)
	u.read += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		u.failure = err
	}
	return n, err
}

// end lets nothing more be read, and returns how much was and the error of reading.
func (u *upload) end() (int64, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended = true
	return u.read, u.failure
}

// mediaConfig is the homeserver's limit on files, which is asked for now and then.
type mediaConfig struct {
	limit atomic.Int64
	mu    sync.Mutex
	asked time.Time
}

const limitKnown = time.Hour

// MaxUpload returns the size of the largest file that the homeserver takes, in bytes; 0 if that is unknown. It doesn't ask.
func (c *Client) MaxUpload() int64 { return c.media.limit.Load() }

// uploadLimit returns MaxUpload after asking the homeserver if it hasn't been asked lately.
func (c *Client) uploadLimit(ctx context.Context) int64 {
	c.media.mu.Lock()
	defer c.media.mu.Unlock()
	if !c.media.asked.IsZero() && time.Since(c.media.asked) < limitKnown {
		return c.MaxUpload()
	}
	for _, path := range []mautrix.PrefixableURLPath{mautrix.ClientURLPath{"v1", "media", "config"}, mautrix.MediaURLPath{"v3", "config"}} {
		var out struct {
			Size int64 `json:"m.upload.size"`
		}
		err := c.call(ctx, request{method: http.MethodGet, path: path, limit: maxSendAnswer}, &out)
		if err == nil {
			c.media.limit.Store(max(out.Size, 0))
		}
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	c.media.asked = time.Now() // an upload that is too large is refused anyway
	return c.MaxUpload()
}
