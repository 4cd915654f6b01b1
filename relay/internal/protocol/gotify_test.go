package protocol

import "testing"

// Proxmox sends the token in two headers; what a notification opens and shows in Gotify's apps are links in the room.
func TestGotify_Extras(t *testing.T) {
	const body = `{"title":"vzdump","message":"**ok**","priority":1,"extras":{"client::display":{"contentType":"text/markdown"},"client::notification":{"click":{"url":"https://e.org/1"},"bigImageUrl":"https://e.org/1.png"}}}`
	b, err := submit(t, Native(), "/message", body, "Authorization: Bearer "+token, "X-Gotify-Key: "+token)
	if err != nil {
		t.Fatal(err)
	}
	if d := b.Drafts[0]; d.Body != "**ok**\n\n<https://e.org/1>\n\n<https://e.org/1.png>" || d.ContentType != "" || *d.Priority != -1 {
		t.Errorf("%+v", d)
	}
	b, err = submit(t, Native(), "/message", `{"message":"m","extras":{"client::notification":{"click":{"url":"javascript:x"}}}}`, "X-Gotify-Key: "+token)
	shown{"", "m", "text/plain"}.check(t, "no web address", b, err)
}
