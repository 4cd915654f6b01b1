package store

import (
	"context"
	"errors"
	"io"
	"time"

	"slipway/relay/internal/post"
)

// ChunkSize is how many bytes of an attachment one row has at most. No more of it is held in memory.
const ChunkSize = 512 << 10

// unusedKept is how long an attachment waits for its message at most.
const unusedKept = time.Hour

// abandoned selects attachments of messages that were accepted before a time and are not on their way.
const abandoned = `message_id > 0 AND created_at < ? AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.id = attachments.message_id AND o.final_at = 0)
	AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.target > 0 AND o.target = attachments.message_id AND o.final_at = 0)`

// AddChunk stores the n-th chunk of an attachment, and returns its id. The first chunk, 0, makes the attachment, and has the id 0.
// The attachment is removed after an hour unless a message is stored with it.
func (s *Store) AddChunk(ctx context.Context, id int64, n int, data []byte, now int64) (int64, error) {
	s.feed.files.add(0, int64(len(data)))
	return id, s.Update(ctx, func(tx *Tx) error {
		if n == 0 {
			if err := tx.db.Raw(`INSERT INTO attachments (message_id, created_at) VALUES (0, ?) RETURNING id`, now).Scan(&id).Error; err != nil {
				return err
			}
		}
		return tx.exec(`INSERT INTO attachment_chunks (attachment_id, n, data) VALUES (?, ?, ?)`, id, n, data)
	})
}

// AttachmentBytes returns the size of all attachments: a count of the last second, and what this relay has stored since.
func (s *Store) AttachmentBytes(ctx context.Context) (int64, error) {
	return s.total(ctx, &s.feed.files, `SELECT coalesce(sum(length(data)), 0) FROM attachment_chunks`)
}

// AttachmentBytesOf is AttachmentBytes for the messages of one application, as they were counted in the last second.
func (s *Store) AttachmentBytesOf(ctx context.Context, application int64) (int64, error) {
	return s.feed.filesBy.get(application, func() (map[int64]int64, error) {
		return s.byApplication(ctx, `SELECT o.application_id, sum(length(c.data)) FROM attachments a JOIN outbox o ON o.id = a.message_id
			JOIN attachment_chunks c ON c.attachment_id = a.id GROUP BY o.application_id`)
	})
}

// DropAttachments removes attachments that belong to no message.
func (s *Store) DropAttachments(ctx context.Context, ids []int64) error {
	return s.Update(ctx, func(tx *Tx) error { return tx.exec(`DELETE FROM attachments WHERE message_id = 0 AND id IN ?`, ids) })
}

// keepAttachments makes the attachments of messages theirs.
func (tx *Tx) keepAttachments(all []*Incoming) error {
	for _, a := range all {
		if a.Entry.Attachments == "" || !a.stored() { // an alert's report that says nothing new
			continue
		}
		var ids []int64
		for _, file := range post.DecodeAttachments(a.Entry.Attachments) {
			ids = append(ids, file.ID)
		}
		if err := tx.exec(`UPDATE attachments SET message_id = ? WHERE message_id = 0 AND id IN ?`, a.Entry.MessageID(), ids); err != nil {
			return err
		}
	}
	return nil
}

// freeAttachment removes the content of an entry that sends an attachment.
func (tx *Tx) freeAttachment(e *post.Entry) error {
	if e.Kind != post.KindMedia {
		return nil
	}
	for _, a := range post.DecodeAttachments(e.Attachments) {
		if err := tx.exec(`DELETE FROM attachments WHERE id = ? AND message_id = ?`, a.ID, e.Target); err != nil {
			return err
		}
	}
	return nil
}

// Attachment returns a reader of an attachment's content, or an error that [IsMissing].
func (s *Store) Attachment(ctx context.Context, id int64) (io.Reader, error) {
	r := &chunkReader{ctx: ctx, s: s, id: id}
	return r, r.next()
}

type chunkReader struct {
	ctx   context.Context
	s     *Store
	id    int64
	n     int
	chunk []byte
}

// Read implements [io.Reader].
func (r *chunkReader) Read(p []byte) (int, error) {
	if len(r.chunk) == 0 {
		if err := r.next(); IsMissing(err) {
			return 0, r.end()
		} else if err != nil {
			return 0, err
		}
	}
	n := copy(p, r.chunk)
	r.chunk = r.chunk[n:]
	return n, nil
}

func (r *chunkReader) next() error {
	err := r.s.queryRow(r.ctx, `SELECT data FROM attachment_chunks WHERE attachment_id = ? AND n = ?`, r.id, r.n).Scan(&r.chunk)
	if err == nil {
		r.n++
	}
	return err
}

var errAttachmentGone = errors.New("the attachment was removed while it was read")

// end tells the end of an attachment from its removal.
func (r *chunkReader) end() error {
	var there bool
	if err := r.s.queryRow(r.ctx, `SELECT EXISTS (SELECT 1 FROM attachments WHERE id = ?)`, r.id).Scan(&there); err != nil {
		return err
	}
	if !there {
		return errAttachmentGone
	}
	return io.EOF
}
