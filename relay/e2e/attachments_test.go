//go:build goolm

package e2e

import (
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway/relay/internal/servertest"
	"slipway/shared/programtest"
)

// attached is an attachment as a reader of its room gets it.
type attached struct{ kind, name, content string }

// attachments are those in a room, in order. A reader decrypts those of an encrypted one.
func (s *site) attachments(room string, reader *servertest.Reader) (all []attached) {
	s.Helper()
	if reader == nil {
		for _, e := range s.events(room) {
			if kind := e.Field("msgtype"); kind != "m.text" {
				content, err := s.owner.Download(s.ctx, e.Field("url"))
				s.must(err)
				all = append(all, attached{kind, e.Field("filename"), string(content)})
			}
		}
		return all
	}
	for _, e := range reader.Events(room) {
		kind, _ := e.Content["msgtype"].(string)
		name, _ := e.Content["filename"].(string)
		if e.Type == "m.room.message" && kind != "m.text" {
			content, err := reader.File(s.ctx, e)
			s.must(err)
			all = append(all, attached{kind, name, string(content)})
		}
	}
	return all
}

// picture is a PNG that is large enough for several parts in the database.
func picture(t *testing.T) []byte {
	t.Helper()
	img := image.NewRGBA(image.Rect(0, 0, 600, 500))
	for i := range img.Pix {
		img.Pix[i] = byte(i*i>>3 ^ i)
	}
	var b strings.Builder
	encoder := png.Encoder{CompressionLevel: png.NoCompression}
	if err := encoder.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return []byte(b.String())
}

// TestAttachments: files arrive as they were sent, once, in a plain room by the senders that people use and in an encrypted one,
// although the relay is killed between accepting and delivering each.
func TestAttachments(t *testing.T) {
	t.Parallel()
	for _, sealed := range []bool{false, true} {
		t.Run(fmt.Sprint("encrypted ", sealed), func(t *testing.T) {
			s := newSite(t)
			s.start()
			var room string
			var reader *servertest.Reader
			if sealed {
				room, reader = s.sealedRoom()
			}
			a := s.application("files", room)
			s.becomes(s.say(a, "the room works"), "sent")
			content := picture(t)
			file, text := filepath.Join(s.dir, "picture.png"), filepath.Join(s.dir, "notes.txt")
			s.must(os.WriteFile(file, content, 0o600))
			s.must(os.WriteFile(text, []byte("secret notes"), 0o600))
			b64 := base64.StdEncoding.EncodeToString([]byte("secret notes"))
			want := []attached{}
			for i, tt := range []struct {
				name string
				args []string
				want []attached
			}{
				{"a form", []string{"curl", "-fsS", "-F", "token=" + a.token, "-F", "message=BODY", "-F", "a=@" + file, "-F", "b=@" + text, s.url + "/message"}, []attached{{"m.image", "picture.png", string(content)}, {"m.file", "notes.txt", "secret notes"}}},
				{"Gotify's form", []string{"curl", "-fsS", "-H", "X-Gotify-Key: " + a.token, "-F", "a=@" + text, "-F", "message=BODY", s.url + "/message"}, []attached{{"m.file", "notes.txt", "secret notes"}}},
				{"JSON", []string{"curl", "-fsS", "-H", "Content-Type: application/json", "-d", `{"token":"` + a.token + `","message":"BODY","attachments":[{"filename":"n.txt","base64":"` + b64 + `"}]}`, s.url + "/message"}, []attached{{"m.file", "n.txt", "secret notes"}}},
				{"ntfy", []string{"curl", "-fsS", "-T", file, "-H", "Filename: door.png", "-H", "Message: BODY", s.url + "/" + a.token}, []attached{{"m.image", "door.png", string(content)}}},
				{"Pushover", []string{"curl", "-fsS", "-F", "token=" + a.token, "-F", "user=u", "-F", "message=BODY", "-F", "attachment=@" + file, s.url + "/1/messages.json"}, []attached{{"m.image", "picture.png", string(content)}}},
				{"Discord", []string{"curl", "-fsS", "-F", `payload_json={"content":"BODY"}`, "-F", "files[0]=@" + text, s.url + "/api/webhooks/1/" + a.token}, []attached{{"m.file", "notes.txt", "secret notes"}}},
				{"JSON by Apprise", []string{"apprise", "-b", "BODY", "--attach", file, "json://" + s.addr + "/hook/generic/" + a.token + patient}, []attached{{"m.image", "picture.png", string(content)}}},
				{"a form by Apprise", []string{"apprise", "-b", "BODY", "--attach", text, "form://" + s.addr + "/hook/generic/" + a.token + patient}, []attached{{"m.file", "notes.txt", "secret notes"}}},
			} {
				if sealed && i >= 2 { // after these it makes no difference who sends
					break
				}
				body := "sent as " + tt.name
				for i := range tt.args {
					tt.args[i] = strings.ReplaceAll(tt.args[i], "BODY", body)
				}
				path := []string{"/upload", "/send/"}[i%2] // what the relay waits for when it is killed
				s.proxy.Script(servertest.Rule{Path: path, Fault: servertest.HangAfter()})
				if out, err := exec.CommandContext(s.ctx, programtest.Tool(t, tt.args[0]), tt.args[1:]...).CombinedOutput(); err != nil {
					t.Errorf("%s: %v\n%s", tt.name, err, strings.ReplaceAll(string(out), a.token, "TOKEN"))
				}
				s.kill()
				s.proxy.Script()
				s.start()
				want = append(want, tt.want...)
				s.eventually(tt.name+" arrives", func() bool { return len(s.attachments(a.room, reader)) >= len(want) })
			}
			if s.undelivered() {
				t.Error("not all messages are delivered")
			}
			if got := s.attachments(a.room, reader); !slices.Equal(got, want) {
				for i := range max(len(got), len(want)) {
					if i >= len(got) || i >= len(want) || got[i] != want[i] {
						t.Errorf("attachment %d differs", i)
					}
				}
			}
			if sealed {
				s.noPlainText("secret notes", "notes.txt", "picture.png")
			}
			if log := s.log(); strings.Contains(log, a.token) {
				t.Error("the token is in the log")
			}
		})
	}
}
