package delivery_test

import (
	"slices"
	"testing"

	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
)

// Applications that name one room differently, by its id and by an alias, share it: readers see which one sends, whether the
// message was handed to its room or is read, and after a start too.
func TestSender_RoomByIDAndByAlias_IsShared(t *testing.T) {
	r := relaytest.NewRig(t)
	byAlias := r.NewApp("by alias", "#room:hs")
	r.Start()
	r.Await(r.Post(byAlias.Token, "alone"), post.StateSent)
	byID := r.NewApp("by id", "!resolved-room:hs")
	r.Await(r.Post(byAlias.Token, "handed"), post.StateSent)
	r.Await(r.Post(byID.Token, "handed"), post.StateSent)
	r.Shutdown()
	r.Open()
	ids := []int64{r.Post(byAlias.Token, "read"), r.Post(byID.Token, "read")} // nobody delivers yet
	r.Start()
	for _, id := range ids {
		r.Await(id, post.StateSent)
	}
	if err := r.DeleteApplication(ctx, r.Admin, byID.Application.ID); err != nil {
		t.Fatal(err)
	}
	r.Await(r.Post(byAlias.Token, "alone again"), post.StateSent)
	want := []string{"alone", "by alias\n\nhanded", "by id\n\nhanded", "by alias\n\nread", "by id\n\nread", "alone again"}
	got := r.HS.Bodies("!resolved-room:hs")
	slices.Sort(got) // the two are two rooms to the delivery, which keeps no order between them
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("in the room: %q, want %q", got, want)
	}
}
