package relay

import (
	"slices"
	"testing"
)

// Applications that name one room differently, by its id and by an alias, share it: readers see which one sends, whether the
// message was handed to its room or is read, and after a start too.
func TestSender_RoomByIDAndByAlias_IsShared(t *testing.T) {
	r := newRig(t)
	byAlias := r.app("by alias", "#room:hs")
	r.run()
	r.await(r.send(byAlias.Token, "alone"), StateSent)
	byID := r.app("by id", "!resolved-room:hs")
	r.await(r.send(byAlias.Token, "handed"), StateSent)
	r.await(r.send(byID.Token, "handed"), StateSent)
	r.close()
	r.open()
	ids := []int64{r.send(byAlias.Token, "read"), r.send(byID.Token, "read")} // nobody delivers yet
	r.run()
	for _, id := range ids {
		r.await(id, StateSent)
	}
	if err := r.DeleteApplication(ctx, r.admin, byID.Application.ID); err != nil {
		t.Fatal(err)
	}
	r.await(r.send(byAlias.Token, "alone again"), StateSent)
	want := []string{"alone", "by alias\n\nhanded", "by id\n\nhanded", "by alias\n\nread", "by id\n\nread", "alone again"}
	got := r.hs.bodies("!resolved-room:hs")
	slices.Sort(got) // the two are two rooms to the delivery, which keeps no order between them
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("in the room: %q, want %q", got, want)
	}
}
